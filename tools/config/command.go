package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"runnel/rpc/mcp"
	"runnel/tools/text"
)

// Command is one entry of "tools:" in the config file: a command that runs as a tool, or a model that answers
// as one. Each key has its default beside it.
type Command struct {
	Title       string               `yaml:"title"`
	Description string               `yaml:"description"`
	Annotations *mcp.ToolAnnotations `yaml:"annotations"`
	// for clients that look for something there.
	Meta Object `yaml:"_meta" json:",omitempty"`

	// Command is the argv, with placeholders. Shell is a script for /bin/sh, on Windows for cmd.exe. Exactly
	// one of them is set.
	Command []string `yaml:"command"`
	Shell   string   `yaml:"shell"`
	// Model answers the calls instead of a command.
	Model *Model `yaml:"model" json:",omitempty"`

	Input    Object   `yaml:"input" json:",omitempty"` // properties, or a whole JSON Schema of type object
	Required []string `yaml:"required"`                // names of required properties
	// Names of properties whose values may begin with "-" where the command reads options.
	Options []string `yaml:"options"`

	Dir   string            `yaml:"dir"`   // relative to the config file's directory, which is the default
	Env   map[string]string `yaml:"env"`   // added to runnel's own environment
	Stdin string            `yaml:"stdin"` // with placeholders, or StdinOpen; default: the null device

	Timeout     Duration  `yaml:"timeout"`     // the longest run; 0 = no limit
	IdleTimeout Duration  `yaml:"idleTimeout"` // the longest time without output; 0 = no limit
	Grace       *Duration `yaml:"grace"`       // between TERM and KILL; default 5 s
	OkExitCodes []int     `yaml:"okExitCodes"` // default [0]

	Stderr string `yaml:"stderr"` // merge (default), separate, discard
	Pty    bool   `yaml:"pty"`    // give the command a terminal; its stderr is merged
	// Size is that of the terminal, COLUMNSxROWS; default 120x40 if interactive, else 80x24.
	Size     string `yaml:"size"`
	ANSI     string `yaml:"ansi"`     // strip (default), keep
	Encoding string `yaml:"encoding"` // of the output, as in text.NewDecoder; default auto
	Output   string `yaml:"output"`   // text (default), lines
	Progress string `yaml:"progress"` // regexp with one group (percent) or two (done, total)

	// The terminal is for input, too, which comes while the command runs; implies pty.
	Interactive bool `yaml:"interactive"`
	// Regexp: once a line matches, a call is answered, and the command goes on.
	Ready string  `yaml:"ready"`
	Watch []Watch `yaml:"watch"` // lines that are events of the task

	Task          mcp.TaskSupport `yaml:"task"`          // optional (default), required, forbidden
	MaxConcurrent int             `yaml:"maxConcurrent"` // calls that run at once; 0 = no limit
	// Output that is stored: its head and its tail; default DefaultMaxOutput.
	MaxOutput *Size `yaml:"maxOutput"`
	// text in the result; default Base.MaxResult, nil = what suits the client.
	MaxResult *Size `yaml:"maxResult"`

	// The content of structuredContent: none (default), summary, json.
	Structured   string `yaml:"structured"`
	OutputSchema Object `yaml:"outputSchema" json:",omitempty"` // of the printed JSON, with structured: json

	// The files of its directory that a result carries; nil = none.
	Artifacts *Artifacts `yaml:"artifacts" json:",omitempty"`

	Sandbox *Sandbox `yaml:"sandbox" json:",omitempty"` // what the command may do; nil = as in Config.Sandbox

	// A question to the user before the command starts, with placeholders.
	Confirm string `yaml:"confirm"`
	// for a client that cannot be asked: refuse (default), run.
	ConfirmFallback string `yaml:"confirmFallback"`

	Runs string `yaml:"runs"` // the class of the workers that run it; "" = it runs here
	// How long a call waits for a worker; default DefaultQueueTimeout.
	QueueTimeout *Duration `yaml:"queueTimeout"`
	// Priority is that of its calls among those that wait for workers: low, normal (default), high.
	Priority string `yaml:"priority"`
	Retry    Retry  `yaml:"retry"` // how often a call is begun again

	// Idempotent: running a call twice is the same as once, so steps run one again that was cut off.
	Idempotent bool `yaml:"idempotent"`

	// Steps, instead of a command, are tasks of other tools and questions (package steps).
	Steps []Step `yaml:"steps" json:",omitempty"`

	// Every says when the tool starts by itself; nil = when it is called.
	Every *Every `yaml:"every" json:",omitempty"`

	// The command outlives runnel: a process of its own runs it (internal/detach).
	Detach Detach `yaml:"detach"`

	Notify *Notify `yaml:"notify"` // who is notified of the end of its tasks; nil = as in Config.Notify
}

// Watch is an element of "watch:". Each line of the output that it matches is an event of the task.
type Watch struct {
	Match string `yaml:"match"` // regexp
	As    string `yaml:"as"`    // its name for models and people; "" = the expression
	Limit *int   `yaml:"limit"` // how many lines are told, the others are counted; default defaultWatchLimit
}

// Name returns the name of the lines that it matches.
func (w *Watch) Name() string { return cmp.Or(w.As, w.Match) }

const (
	defaultWatchLimit = 5
	limitWatchLimit   = 20
	limitWatch        = 10  // elements
	limitWatchName    = 100 // bytes
)

// Detach says whether a command outlives runnel.
type Detach string

// These are the values of Detach.
const (
	DetachAuto   Detach = "auto"   // the default: once its call is a task, if the client comes back for its tasks
	DetachAlways Detach = "always" // or true
	DetachNever  Detach = "never"  // or false
)

// UnmarshalText reads one of the words.
func (d *Detach) UnmarshalText(text []byte) error {
	switch string(text) {
	case "true":
		*d = DetachAlways
		return nil
	case "false":
		*d = DetachNever
		return nil
	}
	return oneOf((*string)(d), string(text), string(DetachAuto), string(DetachAlways), string(DetachNever))
}

// Object is a JSON object with its keys in the order of the file, since a model reads the arguments of a tool
// in that order. In YAML it is any mapping. Empty means none.
type Object = json.RawMessage

// These are the values of Command.Structured. If a result has structuredContent, hosts show their model
// nothing else.
const (
	StructuredNone    = "none"
	StructuredSummary = "summary" // the output, and how the command ended
	StructuredJSON    = "json"    // the object that the command printed
)

const (
	// MinMaxResult leaves room for some text, with a note about what is left out.
	MinMaxResult = Size(1 << 10)
	// limitMaxResult leaves room on the line for the rest of the result, such as a link to the log.
	limitMaxResult = Size(mcp.MaxContent - 32<<10)
)

// StdinOpen is the value of Command.Stdin for a pipe that stays open for what comes while the command runs.
const StdinOpen = "open"

// TakesInput reports whether the command reads what comes while it runs.
func (c *Command) TakesInput() bool { return c.Interactive || c.Stdin == StdinOpen }

// maxTerminal is the most columns, and rows, of a terminal: a screen of that size takes some 30 MB.
const maxTerminal = 500

// TerminalSize returns the size of the command's terminal. ok: Size is valid.
func (c *Command) TerminalSize() (columns, rows int, ok bool) {
	width, height, _ := strings.Cut(c.Size, "x")
	columns, wrong := strconv.Atoi(width)
	rows, wrongRows := strconv.Atoi(height)
	fits := func(n int) bool { return 2 <= n && n <= maxTerminal }
	return columns, rows, wrong == nil && wrongRows == nil && fits(columns) && fits(rows)
}

// IsClass reports whether a text is a valid name for a class of workers.
func IsClass(s string) bool {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	return s != "" && len(s) <= 64 && strings.Trim(s, letters+"0123456789_-") == ""
}

// completeOffer completes the keys of a call's way to its worker: the question before it, and the queue.
func (c *Command) completeOffer(check func(fine bool, key, problem, allowed string)) {
	c.ConfirmFallback = cmp.Or(c.ConfirmFallback, "refuse")
	c.Priority = cmp.Or(c.Priority, "normal")
	c.QueueTimeout = cmp.Or(c.QueueTimeout, new(DefaultQueueTimeout))
	check(slices.Contains([]string{"refuse", "run"}, c.ConfirmFallback), "confirmFallback",
		fmt.Sprintf("%q is unknown", c.ConfirmFallback), "refuse, run")
	check(slices.Contains([]string{"low", "normal", "high"}, c.Priority), "priority",
		fmt.Sprintf("%q is unknown", c.Priority), "low, normal, high")
	check(c.Runs == "" || IsClass(c.Runs), "runs", fmt.Sprintf("%q is not a class of workers", c.Runs),
		"1 to 64 letters, digits, - and _")
	check(c.Runs == "" || c.Task != mcp.TaskForbidden, "runs",
		"is impossible with task: forbidden, since a worker's call is a task", "task: optional")
	check(*c.QueueTimeout > 0, "queueTimeout", c.QueueTimeout.String()+" is out of range", "more than 0")
}

// Complete fills in the defaults. It returns the *Errors, joined, of values that are unknown or out of range.
func (c *Command) Complete() error {
	var errs []error
	check := func(fine bool, key, problem, allowed string) {
		if !fine {
			errs = append(errs, &Error{Key: key, Problem: problem, Allowed: allowed})
		}
	}
	word := func(key string, value *string, allowed ...string) {
		check(slices.Contains(allowed, *value), key, fmt.Sprintf("%q is unknown", *value),
			strings.Join(allowed, ", "))
	}
	span := func(key string, d Duration) { check(d >= 0, key, d.String()+" is negative", "0 or more") }
	if c.MaxResult != nil {
		check(MinMaxResult <= *c.MaxResult && *c.MaxResult <= limitMaxResult, "maxResult",
			c.MaxResult.String()+" is out of range", MinMaxResult.String()+" to "+limitMaxResult.String())
	}
	c.fillDefaults()
	_, _, sized := c.TerminalSize()
	check(sized, "size", fmt.Sprintf("%q is not a size of a terminal", c.Size),
		"columns x rows, such as 120x40, each from 2 to 500")
	check(!c.Interactive || c.Stdin == "", "stdin",
		"is impossible with interactive: the command reads its terminal", "no stdin")
	check(!c.TakesInput() || c.Task != mcp.TaskForbidden, "task",
		"is impossible with interactive and with stdin: open, since input goes to a task", "task: optional")
	word("stderr", &c.Stderr, "merge", "separate", "discard")
	word("ansi", &c.ANSI, "strip", "keep")
	word("output", &c.Output, "text", "lines")
	word("task", (*string)(&c.Task), "optional", "required", "forbidden")
	word("structured", &c.Structured, StructuredNone, StructuredSummary, StructuredJSON)
	check(!c.Pty || runtime.GOOS != "windows", "pty", "a terminal is available on Unix only", "false")
	check(!c.Pty || c.Stderr == "merge", "stderr",
		c.Stderr+" is impossible with pty: a terminal is one stream", "merge")
	check(c.Detach != DetachAlways ||
		c.Task != mcp.TaskForbidden, "detach",
		"is impossible with task: forbidden, since a detached call is a task", "never")
	check(c.Runs == "" || c.Detach != DetachAlways, "detach",
		"is impossible with runs: a worker's call outlives this process anyway", "never")
	c.completeOffer(check)
	if wrong := c.Retry.complete(); wrong != nil {
		check(false, Join("retry", wrong.Key), wrong.Problem, wrong.Allowed)
	}
	if c.Every != nil && len(errs) == 0 { // it looks at the other keys
		if wrong := c.Every.check(c); wrong != nil {
			errs = append(errs, wrong)
		}
	}
	check(len(c.Watch) <= limitWatch, "watch", fmt.Sprintf("has %d elements", len(c.Watch)),
		fmt.Sprintf("at most %d", limitWatch))
	for i := range c.Watch {
		w := &c.Watch[i]
		if w.Limit == nil {
			w.Limit = new(defaultWatchLimit)
		}
		check(1 <= *w.Limit && *w.Limit <= limitWatchLimit, fmt.Sprintf("watch[%d].limit", i),
			fmt.Sprintf("%d is out of range", *w.Limit), fmt.Sprintf("1 to %d", limitWatchLimit))
		check(w.As == "" || len(w.As) <= limitWatchName && text.Printable(w.As) == w.As,
			fmt.Sprintf("watch[%d].as", i), fmt.Sprintf("%q is not a name", w.As),
			fmt.Sprintf("up to %d bytes in one line", limitWatchName))
	}
	check(c.Ready == "" || c.Task != mcp.TaskForbidden, "ready",
		"is impossible with task: forbidden, since the command goes on as a task", "task: optional")
	span("timeout", c.Timeout)
	span("idleTimeout", c.IdleTimeout)
	span("grace", *c.Grace)
	for i, code := range c.OkExitCodes {
		check(0 <= code && code <= 255, fmt.Sprintf("okExitCodes[%d]", i),
			fmt.Sprintf("%d is not an exit code", code), "0 to 255")
	}
	check(c.MaxConcurrent >= 0, "maxConcurrent", fmt.Sprintf("%d is negative", c.MaxConcurrent),
		"1 or more; 0 = no limit")
	check(*c.MaxOutput > 0, "maxOutput", "0 is out of range", "1 or more")
	artifacts, wrong := c.Artifacts.complete()
	if c.Artifacts = artifacts; wrong != nil {
		check(false, Join("artifacts", wrong.Key), wrong.Problem, wrong.Allowed)
	}
	return errors.Join(errs...)
}

// Retry says how often a call is begun again, and after which failures. Instead of the mapping, a number
// stands for how often it is after the death of its worker alone.
type Retry struct {
	Times   int       `yaml:"times"`   // after the first attempt
	Backoff *Duration `yaml:"backoff"` // before the second attempt, and doubled for each later one; default 1 s
	On      []int     `yaml:"on"`      // exit codes; nil = all that are failures, and signals
	Timeout bool      `yaml:"timeout"` // also after a timeout
}

const (
	// limitRetry is more often than anybody needs.
	limitRetry = 100
	// maxBackoff bounds the pause before an attempt, however often it was doubled.
	maxBackoff = time.Hour
)

// SetShort reads the number that may replace the mapping.
func (r *Retry) SetShort(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil {
		return Wrong("such as 2, or {times: 2, backoff: 5s, on: [1]}", "%q is not a whole number", text)
	}
	*r = Retry{Times: n, On: []int{}}
	return nil
}

// After reports whether a call is begun again after an exit code; nil means that a signal has ended the
// command.
func (r *Retry) After(code *int) bool {
	return r.On == nil || code != nil && slices.Contains(r.On, *code)
}

// Pause returns how long a call waits before an attempt, of which the first is 1.
func (r *Retry) Pause(attempt int) time.Duration {
	wait := time.Second
	if r.Backoff != nil {
		wait = time.Duration(*r.Backoff)
	}
	for ; attempt > 2 && wait < maxBackoff; attempt-- {
		wait *= 2
	}
	return min(wait, maxBackoff)
}

// complete checks the values.
func (r *Retry) complete() *Error {
	if r.Times < 0 || r.Times > limitRetry {
		return &Error{Key: "times", Problem: fmt.Sprintf("%d is out of range", r.Times),
			Allowed: fmt.Sprintf("0 to %d", limitRetry)}
	}
	if r.Backoff != nil && (*r.Backoff < 0 || *r.Backoff > Duration(maxBackoff)) {
		return &Error{Key: "backoff", Problem: r.Backoff.String() + " is out of range", Allowed: "0 to 1h"}
	}
	for i, code := range r.On {
		if code < 0 || code > 255 {
			return &Error{Key: fmt.Sprintf("on[%d]", i), Problem: fmt.Sprintf("%d is not an exit code", code),
				Allowed: "0 to 255"}
		}
	}
	return nil
}
