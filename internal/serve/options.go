package serve

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"runnel/tools/config"
)

// options are the flags of serve. A flag wins over --set, --set over the flag's variable (RUNNEL_MAX_LINE for
// --max-line), a variable over the config file.
type options struct {
	Config    string
	Tools     []string
	LogLevel  Choice
	logFormat Choice
	settings  []*setting
	sets      []string // each KEY=VALUE

	From map[string]string // where each flag's value is from: --max-line or RUNNEL_MAX_LINE
}

// setting is a flag that sets a key of the config. Its words and its default are the key's.
type setting struct {
	flag, key string
	value     string // what stands for the value in the help; "" = the value is true or false
	list      bool   // the flag may be repeated

	texts []string // as they were given
}

// newSettings returns the flags that set a key, in the order of the help.
func newSettings() []*setting {
	return []*setting{
		{flag: "selftest", key: "selftest"},
		{flag: "state", key: "state.dir", value: "DIR"},
		{flag: "owner", key: "server.owner", value: "NAME"},
		{flag: "pace", key: "partials.pace", value: "DURATION"},
		{flag: "sync-wait", key: "tasks.syncWait", value: "DURATION"},
		{flag: "immediate-wait", key: "tasks.immediateWait", value: "DURATION"},
		{flag: "fallback-tools", key: "fallbackTools", value: "WHEN"},
		{flag: "max-result", key: "tasks.maxResult", value: "BYTES"},
		{flag: "notify", key: "notify", value: "DURATION"},
		{flag: "max-tasks", key: "tasks.maxLive", value: "N"},
		{flag: "max-in-flight", key: "limits.maxInFlight", value: "N"},
		{flag: "max-line", key: "limits.maxLine", value: "BYTES"},
		{flag: "drain", key: "limits.drain", value: "DURATION"},
		{flag: "http", key: "http.addr", value: "ADDR"},
		{flag: "no-stdio", key: "http.noStdio"},
		{flag: "http-token-file", key: "http.tokenFile", value: "FILE"},
		{flag: "http-issuer", key: "http.issuer", value: "URL"},
		{flag: "http-audience", key: "http.audience", value: "AUDIENCE"},
		{flag: "http-scope", key: "http.scopes", value: "SCOPE", list: true},
		{flag: "http-owner-claim", key: "http.ownerClaim", value: "CLAIM"},
		{flag: "http-cert", key: "http.cert", value: "FILE"},
		{flag: "http-key", key: "http.key", value: "FILE"},
		{flag: "http-origin", key: "http.origins", value: "ORIGIN", list: true},
		{flag: "http-trusted-proxy", key: "http.trustedProxies", value: "ADDR", list: true},
		{flag: "http-insecure", key: "http.insecure"},
		{flag: "http-advertise", key: "http.advertise", value: "URL"},
		{flag: "metrics", key: "metrics", value: "ADDR"},
	}
}

// rare are flags that few people need: help leaves them out, and they are keys of the config like any other.
var rare = []string{"pace", "immediate-wait", "max-in-flight", "max-line", "max-tasks",
	"fallback-tools", "drain"}

func (s *setting) String() string { return strings.Join(s.texts, ",") }

func (s *setting) Type() string { return cmp.Or(s.value, "bool") }

// Set checks the value and notes it.
func (s *setting) Set(text string) error {
	if s.value == "" {
		is, err := strconv.ParseBool(text)
		if err != nil {
			return err
		}
		text = strconv.FormatBool(is)
	}
	scratch := config.Default() // only to check the value
	if err := scratch.Set(s.key, s.flag, text); err != nil {
		return err
	}
	if err := scratch.CheckBounds(); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), s.flag+": "))
	}
	if !s.list {
		s.texts = nil
	}
	s.texts = append(s.texts, text)
	return nil
}

// Register defines the flags of serve. Those that set a key have no words yet: see Describe.
func (o *options) Register(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.StringVar(&o.Config, "config", "",
		"read the config from `FILE` (else from ./runnel.yaml if you trust it, else from "+
			config.ConfigPlace+")")
	flags.StringArrayVar(&o.Tools, "tool", nil,
		"add a tool; repeatable. `NAME=COMMAND` has quotes as in a shell, but no shell runs; {{name}} in it is an argument that a call must have")
	o.settings = newSettings()
	for _, s := range o.settings {
		f := flags.VarPF(s, s.flag, "", "")
		if s.value == "" {
			f.NoOptDefVal = "true"
		}
	}
	flags.Func("set", "set a key of the config, `KEY=VALUE` (runnel help config); repeatable",
		func(text string) error {
			key, value, ok := strings.Cut(text, "=")
			if !ok {
				return config.Wrong("KEY=VALUE, such as tasks.ttl=2h", "%q has no value", text)
			}
			o.sets = append(o.sets, text)
			return config.Default().Override(key, value) // only to check it
		})
	o.LogLevel = Choice{Words: config.LogLevels, Word: "info", Name: "LEVEL"}
	o.logFormat = Choice{Words: config.LogFormats, Word: config.LogFormats[0], Name: "FORMAT"}
	flags.Var(&o.LogLevel, "log-level", "")
	flags.Var(&o.logFormat, "log-format", "")
	flags.VisitAll(func(f *pflag.Flag) {
		f.Hidden = slices.Contains(rare, f.Name)
		f.Annotations = map[string][]string{variable: {"RUNNEL_" +
			strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))}}
	})
}

// Describe gives the flags that set a key their words and their defaults. Only help needs them.
func Describe(flags *pflag.FlagSet) {
	all := append(newSettings(), &setting{flag: "log-level", key: "log.level"},
		&setting{flag: "log-format", key: "log.format"})
	flags.VisitAll(func(f *pflag.Flag) {
		n := slices.IndexFunc(all, func(s *setting) bool { return s.flag == f.Name })
		if n < 0 || f.Usage != "" {
			return
		}
		words, value := config.Describe(all[n].key)
		f.Usage = strings.ToLower(words[:1]) + strings.TrimSuffix(words[1:], ".")
		if all[n].list {
			f.Usage += "; repeatable"
		}
		if f.DefValue = value; value == "false" {
			f.DefValue = ""
		}
	})
}

// variable annotates a flag with its variable. Only the settings of a server have one: a variable never
// changes what a command does.
const variable = "variable"

// Choice is a flag whose value is one of a few words.
type Choice struct {
	Words []string
	Word  string
	Name  string // in the help; "" = WORD
}

// OneOf makes a Choice; the first word is the default.
func OneOf(words ...string) *Choice { return &Choice{Words: words, Word: words[0]} }

func (c *Choice) String() string { return c.Word }

func (c *Choice) Type() string { return cmp.Or(c.Name, "WORD") }

func (c *Choice) Set(text string) error {
	if !slices.Contains(c.Words, text) {
		return config.Wrong(strings.TrimPrefix(strings.Join(c.Words, ", "), ", "), "%q is unknown", text)
	}
	c.Word = text
	return nil
}

// ReadEnvironment sets each flag that was not given from its variable, if it has one. An empty variable
// counts as not set.
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
