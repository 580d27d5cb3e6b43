package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"runnel/tools"
)

// options are what flags and variables say. A flag wins over its variable (RUNNEL_MAX_LINE for
// --max-line), a variable over the config file.
type options struct {
	config    string
	tools     []string
	selftest  bool
	metrics   address
	logLevel  chosen
	logFormat chosen
	settings  []*setting

	from map[string]string // what gave a flag its value: --max-line or RUNNEL_MAX_LINE
}

// setting is a flag that sets a value of the config.
type setting struct {
	flag, path, usage string

	text    string // as it was written
	scratch *tools.Config
}

// register defines the flags of serve.
func (o *options) register(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.StringVar(&o.config, "config", "", "read tools and settings from `FILE`; else from ./runnel.yaml, if you trust it (runnel trust),\nelse from runnel/runnel.yaml in $XDG_CONFIG_HOME or ~/.config")
	flags.StringArrayVar(&o.tools, "tool", nil, "add a tool, `NAME=COMMAND`; repeatable. Quotes work as in a shell, but no shell runs;\n{{name}} in the command is an argument that a call must give")
	flags.BoolVar(&o.selftest, "selftest", false, "add tools to try a client with: echo, stream, sleep, fail and others")
	o.settings = []*setting{
		{flag: "state", path: "state.dir", usage: "keep tasks in `DIR` (else $XDG_STATE_HOME/runnel or ~/.local/state/runnel); memory = nothing on disk"},
		{flag: "owner", path: "server.owner", usage: "run and see the tasks of this `NAME` only"},
		{flag: "pace", path: "partials.pace", usage: "send a task's new output once in this `DURATION`; 0 = each piece at once"},
		{flag: "sync-wait", path: "tasks.syncWait", usage: "after this `DURATION` a call goes on as a background task; 0 = never"},
		{flag: "immediate-wait", path: "tasks.immediateWait", usage: "after this `DURATION` a call in immediate mode becomes a task"},
		{flag: "fallback-tools", path: "fallbackTools", usage: "`WHEN` to list start_task, get_task_result, list_tasks and cancel_task:\nauto (for clients that cannot do tasks), always, never"},
		{flag: "max-result", path: "tasks.maxResult", usage: "show a model `BYTES` of what a command prints; of more the head and the tail"},
		{flag: "max-tasks", path: "tasks.maxLive", usage: "run `N` tasks at once at most"},
		{flag: "max-in-flight", path: "limits.maxInFlight", usage: "answer `N` requests at once at most"},
		{flag: "max-line", path: "limits.maxLine", usage: "refuse an incoming line of more `BYTES`, such as 512KiB"},
		{flag: "drain", path: "limits.drain", usage: "when the input has ended, let calls and tasks go on for this `DURATION`; -1 = until all are done"},
	}
	scratch := tools.DefaultConfig()
	for _, s := range o.settings {
		s.scratch = scratch
		flags.Var(s, s.flag, s.usage)
	}
	flags.Var(&o.metrics, "metrics", "serve metrics for Prometheus at `ADDR`, path /metrics; :PORT = for this machine only")
	o.logLevel = chosen{words: []string{"debug", "info", "warn", "error"}, word: "info"}
	o.logFormat = *choiceOf("auto", "json", "console")
	flags.Var(&o.logLevel, "log-level", "log what is of this `LEVEL` or graver to stderr: debug, info, warn, error")
	flags.Var(&o.logFormat, "log-format", "`FORMAT` of the log: json, console, or auto (console on a terminal)")
}

// showDefaults makes the defaults of the settings known, for those who ask for help.
func (o *options) showDefaults(flags *pflag.FlagSet) {
	defaults := tools.DefaultConfig()
	for _, s := range o.settings {
		s.text = defaults.Text(s.path)
		flags.Lookup(s.flag).DefValue = s.text
	}
}

// String is the value as text; pflag shows it as the default.
func (s *setting) String() string { return s.text }

// Set takes a value if the config can have it.
func (s *setting) Set(text string) error {
	if err := s.scratch.Set(s.path, text, s.flag); err != nil {
		return err
	}
	s.text = text
	return nil
}

// Type is only for pflag; the usage names the value.
func (s *setting) Type() string { return "value" }

// chosen is a flag that takes one of some words.
type chosen struct {
	words []string
	word  string
}

// choiceOf makes one of which the first word is the default.
func choiceOf(words ...string) *chosen { return &chosen{words: words, word: words[0]} }

func (c *chosen) String() string { return c.word }

func (c *chosen) Type() string { return "word" }

func (c *chosen) Set(text string) error {
	if !slices.Contains(c.words, text) {
		return fmt.Errorf("%q is unknown; allowed: %s", text, strings.TrimPrefix(strings.Join(c.words, ", "), ", "))
	}
	c.word = text
	return nil
}

// addServeFlags adds the flags of serve to a command. Those that change nothing most people care about there are taken, since a host's
// flags may be given as they are, but not shown.
func addServeFlags(flags, serve *pflag.FlagSet, shown ...string) {
	serve.VisitAll(func(f *pflag.Flag) {
		own := *f
		own.Hidden = !slices.Contains(shown, f.Name)
		flags.AddFlag(&own)
	})
}

// outputFlag adds -o, which says how a command prints: text and the formats that are described.
func outputFlag(flags *pflag.FlagSet, formats ...string) *chosen {
	words := []string{"text"}
	for _, f := range formats {
		word, _, _ := strings.Cut(f, " ")
		words = append(words, word)
	}
	o := choiceOf(words...)
	flags.VarP(o, "output", "o", "`FORMAT` of what is printed: text, "+strings.Join(formats, ", "))
	return o
}

// span is the time of a flag: written as in the config, and not negative.
type span time.Duration

func (s *span) String() string {
	if *s == 0 {
		return "0" // which help does not show as a default
	}
	return tools.Duration(*s).String()
}

func (s *span) Type() string { return "duration" }

func (s *span) Set(text string) error {
	var d tools.Duration
	if err := d.UnmarshalText([]byte(text)); err != nil {
		return err
	}
	if d < 0 {
		return fmt.Errorf("%s is negative; allowed: 0 or more", text)
	}
	*s = span(d)
	return nil
}

// position is a place in an output: how many bytes stand before it.
type position int64

func (p *position) String() string { return fmt.Sprint(int64(*p)) }

func (p *position) Type() string { return "bytes" }

func (p *position) Set(text string) error {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return fmt.Errorf("%q is no position; allowed: a whole number of bytes, 0 or more", text)
	}
	*p = position(n)
	return nil
}

// readEnvironment gives each flag of a command that was not set the value of its variable; an empty one counts as not set.
func (i *invocation) readEnvironment(cmd *cobra.Command) error {
	o := &i.options
	o.from = map[string]string{}
	var errs []error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		variable := "RUNNEL_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value := i.getenv(variable)
		switch {
		case f.Name == "help" || f.Name == "version":
		case f.Changed:
			o.from[f.Name] = "--" + f.Name
		case value == "":
		default:
			o.from[f.Name] = variable
			if err := f.Value.Set(value); err != nil {
				if f.Value.Type() == "bool" {
					err = fmt.Errorf("%q is no truth value; allowed: true, false", value)
				}
				errs = append(errs, fmt.Errorf("%s: %s", variable, allowedInParentheses(err)))
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		return &usageError{err, hint(cmd)}
	}
	return nil
}

// readEnvironmentQuietly is readEnvironment for a command whose output stands beside the log: what a host wants to know of is noise
// there, unless somebody asks for it.
func (i *invocation) readEnvironmentQuietly(cmd *cobra.Command) error {
	err := i.readEnvironment(cmd)
	if i.options.from["log-level"] == "" {
		i.options.logLevel.word = "warn"
	}
	return err
}

// flagError words what pflag found wrong with the flags of a command.
func flagError(cmd *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	switch {
	case errors.As(err, &value):
		cause := errors.Unwrap(value)
		if value.GetFlag().Value.Type() == "bool" {
			cause = fmt.Errorf("%q is no truth value; allowed: true, false", value.GetValue())
		}
		err = fmt.Errorf("--%s: %s", value.GetFlag().Name, allowedInParentheses(cause))
	case errors.As(err, &unknown):
		name, letters := unknown.GetSpecifiedName(), unknown.GetSpecifiedShortnames()
		names := commandNames(cmd) // --doctor
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		if f := cmd.Flags().Lookup("output"); f != nil && f.Shorthand == "o" && (name == "json" || name == "ndjson") {
			return fmt.Errorf("unknown flag --%s (write -o %s)", name, name)
		}
		err = didYouMean(fmt.Errorf("unknown flag %s", dashed(name, letters)), "--"+cmp.Or(letters, name), names) // -config
	case errors.As(err, &missing):
		name, _ := pflag.UnquoteUsage(missing.GetFlag())
		err = fmt.Errorf("%s needs a value: %s", dashed(missing.GetSpecifiedName(), missing.GetSpecifiedShortnames()), name)
	}
	return err
}

// dashed is a flag as it was written: letters are those that stood behind a single dash, if one did.
func dashed(name, letters string) string {
	if letters != "" {
		return "-" + name
	}
	return "--" + name
}

// allowedInParentheses writes an error of a value as errors of the config are written.
func allowedInParentheses(err error) string {
	problem, allowed, ok := strings.Cut(err.Error(), "; allowed: ")
	if ok {
		return problem + " (allowed: " + allowed + ")"
	}
	return problem
}
