package serve

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"runnel/tools/config"
)

// options are the flags of serve. A flag wins over its variable (RUNNEL_MAX_LINE for --max-line), a variable over the config file.
type options struct {
	Config    string
	Tools     []string
	selftest  bool
	http      httpOptions
	metrics   string // the address where they are served; "" = not at all
	LogLevel  Choice
	logFormat Choice
	settings  []*setting
	sets      []string // each KEY=VALUE

	From map[string]string // where each flag's value is from: --max-line or RUNNEL_MAX_LINE
}

// setting is a flag that sets a value of the config.
type setting struct {
	flag, path, usage string

	text string // as it was given
}

// Register defines the flags of serve.
func (o *options) Register(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.StringVar(&o.Config, "config", "", "read tools and settings from `FILE`; else from ./runnel.yaml, if you trust it (runnel trust),\nelse from "+config.ConfigPlace)
	flags.StringArrayVar(&o.Tools, "tool", nil, "add a tool, `NAME=COMMAND`; repeatable. Quotes work as in a shell, but no shell runs;\n{{name}} in the command is an argument that a call must have")
	flags.BoolVar(&o.selftest, "selftest", false, "add tools to try a client with: echo, stream, sleep, fail and others")
	o.settings = []*setting{
		{flag: "state", path: "state.dir", usage: "keep tasks in `DIR` (else " + config.StatePlace + "); memory = nothing on disk;\nredis://HOST, nats://HOST or dynamodb://TABLE = shared by several machines"},
		{flag: "owner", path: "server.owner", usage: "run and see the tasks of this `NAME` only"},
		{flag: "pace", path: "partials.pace", usage: "send a task's new output once in this `DURATION`; 0 = each piece at once"},
		{flag: "sync-wait", path: "tasks.syncWait", usage: "after this `DURATION` a call goes on as a background task; 0 = never"},
		{flag: "immediate-wait", path: "tasks.immediateWait", usage: "after this `DURATION` a call in immediate mode becomes a task"},
		{flag: "fallback-tools", path: "fallbackTools", usage: "`WHEN` to list start_task, get_task_result, list_tasks and cancel_task:\nauto (for clients that cannot do tasks), always, never"},
		{flag: "max-result", path: "tasks.maxResult", usage: "show a model at most `BYTES` of a command's output: the head and tail of a longer one"},
		{flag: "notify", path: "notify", usage: "notify the desktop when a call that took this `DURATION` or longer has ended; never = no notifications"},
		{flag: "max-tasks", path: "tasks.maxLive", usage: "run at most `N` tasks at once"},
		{flag: "max-in-flight", path: "limits.maxInFlight", usage: "answer at most `N` requests at once"},
		{flag: "max-line", path: "limits.maxLine", usage: "refuse incoming lines longer than `BYTES`, such as 512KiB"},
		{flag: "drain", path: "limits.drain", usage: "after the end of the input, let calls and tasks go on for this `DURATION`; -1 = until all are done"},
	}
	defaults := config.Default()
	for _, s := range o.settings {
		flags.Func(s.flag, s.usage, func(text string) error {
			s.text = text
			scratch := config.Default() // only to check the value
			if err := scratch.Set(s.path, text, s.flag); err != nil {
				return err
			}
			if err := scratch.Check(); err != nil {
				return errors.New(strings.TrimPrefix(err.Error(), s.flag+": "))
			}
			return nil
		})
		flags.Lookup(s.flag).DefValue = defaults.Text(s.path)
	}
	o.http.register(flags)
	flags.Func("set", "set a `KEY=VALUE` of the config, such as tasks.ttl=2h; repeatable (runnel help config lists the keys)", func(text string) error {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return config.Wrong("KEY=VALUE, such as tasks.ttl=2h", "%q has no value", text)
		}
		o.sets = append(o.sets, text)
		return config.Default().Override(key, value) // only to check it
	})
	flags.Func("metrics", "serve metrics for Prometheus at `ADDR`, path /metrics; :PORT = for this machine only", func(text string) (err error) {
		o.metrics, err = listenAddress(text)
		return err
	})
	o.LogLevel = Choice{Words: []string{"debug", "info", "warn", "error"}, Word: "info"}
	o.logFormat = *OneOf("auto", "json", "console")
	flags.Var(&o.LogLevel, "log-level", "log messages of this `LEVEL` and above to stderr: debug, info, warn, error")
	flags.Var(&o.logFormat, "log-format", "`FORMAT` of the log: json, console, or auto (console on a terminal)")
	flags.VisitAll(func(f *pflag.Flag) {
		f.Hidden = slices.Contains(rare, f.Name)
		f.Annotations = map[string][]string{variable: {"RUNNEL_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))}}
	})
}

// rare are flags that few people need: help leaves them out, and they are keys of the config like any other.
var rare = []string{"pace", "immediate-wait", "max-in-flight", "max-line", "max-tasks", "fallback-tools", "drain"}

// variable annotates a flag with its variable. Only the settings of a server have one: a variable never changes what a command does.
const variable = "variable"

// Choice is a flag whose value is one of a few words.
type Choice struct {
	Words []string
	Word  string
}

// OneOf makes a Choice; the first word is the default.
func OneOf(words ...string) *Choice { return &Choice{Words: words, Word: words[0]} }

func (c *Choice) String() string { return c.Word }

func (c *Choice) Type() string { return "word" }

func (c *Choice) Set(text string) error {
	if !slices.Contains(c.Words, text) {
		return config.Wrong(strings.TrimPrefix(strings.Join(c.Words, ", "), ", "), "%q is unknown", text)
	}
	c.Word = text
	return nil
}

// ReadEnvironment sets each flag that was not given from its variable, if it has one. An empty variable counts as not set.
func (o *options) ReadEnvironment(flags *pflag.FlagSet, getenv func(name string) string) error {
	o.From = map[string]string{}
	var errs []error
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			o.From[f.Name] = "--" + f.Name
			return
		}
		for _, name := range f.Annotations[variable] {
			value := getenv(name)
			if value == "" {
				continue
			}
			o.From[f.Name] = name
			if err := f.Value.Set(value); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, ValueError(f, value, err)))
			}
		}
	})
	return errors.Join(errs...)
}

// ValueError says why a flag does not take a value: with its own error, except for a bool.
func ValueError(f *pflag.Flag, value string, err error) error {
	if f.Value.Type() == "bool" {
		return config.Wrong("true, false", "%q is not a truth value", value)
	}
	return err
}
