package config

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"runnel/tools/config/strict"
)

// Config holds the values of a config file. Flags and environment variables override them. Make one with
// Parse or Default. The file config.schema.json describes each key.
type Config struct {
	Server        Server              `yaml:"server"`
	Limits        Limits              `yaml:"limits"`
	Partials      Partials            `yaml:"partials"`
	Tasks         Tasks               `yaml:"tasks"`
	State         State               `yaml:"state"`
	History       History             `yaml:"history"`
	HTTP          HTTP                `yaml:"http"`
	Metrics       Address             `yaml:"metrics"`
	Log           Log                 `yaml:"log"`
	Fleet         Fleet               `yaml:"fleet"`
	FallbackTools FallbackTools       `yaml:"fallbackTools"`
	Compat        Compat              `yaml:"compat"`
	Tools         map[string]Command  `yaml:"tools"`
	Selftest      bool                `yaml:"selftest"`
	Upstreams     map[string]Upstream `yaml:"upstreams"`
	Sandbox       *Sandbox            `yaml:"sandbox"` // of tools and upstreams that have none; nil = none
	Secrets       Secrets             `yaml:"secrets"`
	Notify        *Notify             `yaml:"notify"`

	elsewhere []string // tools that OnWorker has left out

	source *strict.File // where the values stand; nil = no file
	// The flags and variables that override values, such as --max-line, by the values' paths.
	set map[string]string
}

// Server describes the server to clients.
type Server struct {
	Name         string `yaml:"name"`
	Instructions string `yaml:"instructions"`
	Owner        string `yaml:"owner"`
}

// Limits bounds a session.
type Limits struct {
	MaxLine     Size  `yaml:"maxLine"`
	MaxInFlight int   `yaml:"maxInFlight"`
	Drain       Drain `yaml:"drain"`
}

// Partials configures how output is delivered while a tool runs.
type Partials struct {
	Pace       Duration `yaml:"pace"`
	MaxBytes   Size     `yaml:"maxBytes"`
	MaxPending Size     `yaml:"maxPending"`
}

// Tasks configures how long tasks are kept, how many there may be, and how calls are answered.
type Tasks struct {
	TTL                  Duration   `yaml:"ttl"`
	MaxTTL               Duration   `yaml:"maxTtl"`
	PollInterval         Duration   `yaml:"pollInterval"`
	MaxLive              int        `yaml:"maxLive"`
	MaxStartsPerMinute   int        `yaml:"maxStartsPerMinute"`
	MaxRequestsPerSecond int        `yaml:"maxRequestsPerSecond"` // with a burst of one second's worth
	SyncWait             Duration   `yaml:"syncWait"`
	ImmediateWait        Duration   `yaml:"immediateWait"`
	Heartbeat            Duration   `yaml:"heartbeat"`
	FailedExit           FailedExit `yaml:"failedExit"`
	MaxResult            Size       `yaml:"maxResult"` // of a command without maxResult; see Config.MaxResult
}

// State configures where tasks are kept.
type State struct {
	Dir      string `yaml:"dir"` // or "", memory, or the URL of a server
	MaxState Size   `yaml:"maxState"`
}

// History says what a state on disk keeps of the calls that ended without becoming tasks, for people
// (tasks.History).
type History struct {
	Calls int      `yaml:"calls"`
	Age   Duration `yaml:"age"`
	Log   Size     `yaml:"log"`
}

// Log configures the log on stderr.
type Log struct {
	Level  LogLevel  `yaml:"level"`
	Format LogFormat `yaml:"format"`
}

// Fleet names classes of workers, in addition to those in Command.Runs.
type Fleet struct {
	Classes []string `yaml:"classes"`
}

// InMemory reports whether tasks end with the process.
func (s *State) InMemory() bool { return s.Dir == "memory" }

// IsURL reports whether tasks are kept by a server, which other machines can use, too.
func (s *State) IsURL() bool { return strings.Contains(s.Dir, "://") }

// OnDisk reports whether tasks are kept in a directory on this machine.
func (s *State) OnDisk() bool { return !s.InMemory() && !s.IsURL() }

// Place returns a name for a state that is not on disk. It shows only the scheme of a URL, which may contain
// a password.
func (s *State) Place() string {
	scheme, _, found := strings.Cut(s.Dir, "://")
	if found {
		return scheme + "://..."
	}
	return s.Dir
}

// ErrNoHome is returned by StateDir if the config names no directory and the user has no home.
var ErrNoHome = errors.New("neither " + StateVariable + " nor " + HomeVariable +
	" is set to an absolute path")

// StateDir returns the directory where tasks are kept: the configured one, or runnel in the user's state
// directory.
func (c *Config) StateDir(getenv func(string) string) (string, error) {
	if c.State.Dir == "" {
		home := getenv(HomeVariable)
		if state := getenv(StateVariable); filepath.IsAbs(state) {
			return filepath.Join(state, "runnel"), nil
		}
		if !filepath.IsAbs(home) {
			return "", ErrNoHome
		}
		return filepath.Join(home, stateBelowHome, "runnel"), nil
	}
	dir, err := c.Path("state.dir", getenv)
	if err != nil {
		return "", err
	}
	return filepath.Abs(dir)
}

// Path returns the path that is the value of a key: ~/x is in the user's home, and one that the file names is
// relative to the file. "" is "".
func (c *Config) Path(key string, getenv func(string) string) (string, error) {
	path := c.Text(key)
	switch {
	case inHome(path):
		home := getenv(HomeVariable)
		if !filepath.IsAbs(home) {
			return "", fmt.Errorf("%s %s: %s is not set to an absolute path", key, path, HomeVariable)
		}
		return filepath.Join(home, path[1:]), nil
	case path != "" && !filepath.IsAbs(path) && c.source.Name() != "" && !c.Overridden(key):
		return filepath.Join(filepath.Dir(c.source.Name()), path), nil
	}
	return path, nil
}

// inHome reports whether a directory is relative to the user's home: ~ or ~/x.
func inHome(dir string) bool { return dir == "~" || strings.HasPrefix(filepath.ToSlash(dir), "~/") }

// Compat relaxes rules of the specification.
type Compat struct {
	RequiredFallthrough bool `yaml:"requiredFallthrough"`
}

// LogLevel is the least level that is logged.
type LogLevel string

// LogLevels are the values of a LogLevel.
var LogLevels = []string{"debug", "info", "warn", "error"}

// UnmarshalText reads one of the words.
func (l *LogLevel) UnmarshalText(text []byte) error {
	return oneOf((*string)(l), string(text), LogLevels...)
}

// LogFormat is how the log is written.
type LogFormat string

// LogFormats are the values of a LogFormat; auto is console on a terminal, else json.
var LogFormats = []string{"auto", "json", "console"}

// UnmarshalText reads one of the words.
func (f *LogFormat) UnmarshalText(text []byte) error {
	return oneOf((*string)(f), string(text), LogFormats...)
}

// FallbackTools is auto, always or never.
type FallbackTools string

// UnmarshalText reads one of the three words.
func (f *FallbackTools) UnmarshalText(text []byte) error {
	return oneOf((*string)(f), string(text), "auto", "always", "never")
}

// FailedExit is the status of a task whose tool returned an error result: failed or completed.
type FailedExit string

// UnmarshalText reads one of the two words.
func (f *FailedExit) UnmarshalText(text []byte) error {
	return oneOf((*string)(f), string(text), "failed", "completed")
}

// Kind implements strict.Kind.
func (*Drain) Kind() string { return "a duration" }

// Drain is a Duration, or -1: as long as it takes.
type Drain time.Duration

// UnmarshalText reads a duration, or -1.
func (d *Drain) UnmarshalText(text []byte) error {
	v := Duration(-1)
	if string(text) != "-1" && (v.UnmarshalText(text) != nil || v < 0) {
		return Wrong("such as 500ms or 2s, or -1 = until all calls are done", "%q is not a duration", text)
	}
	*d = Drain(v)
	return nil
}

// String writes the duration, or -1.
func (d Drain) String() string {
	if d < 0 {
		return "-1"
	}
	return Duration(d).String()
}

// Set overrides the value at a path, such as limits.maxLine, by a flag or a variable. A list takes several
// texts. from names that source, such as --max-line, for the errors of Check.
func (c *Config) Set(path, from string, texts ...string) error {
	v := c.at(path)
	if v.Kind() == reflect.Slice {
		v.Set(reflect.MakeSlice(v.Type(), len(texts), len(texts)))
	}
	for i, text := range texts {
		one := v
		if v.Kind() == reflect.Slice {
			one = v.Index(i)
		}
		if err := strict.SetText(one, text); err != nil {
			return err
		}
	}
	if c.set == nil {
		c.set = map[string]string{}
	}
	c.set[path] = from
	return nil
}

// Text returns the value at a path as Set reads it.
func (c *Config) Text(path string) string { return fmt.Sprint(c.at(path).Interface()) }

// at returns the value at a path.
func (c *Config) at(path string) reflect.Value {
	v := reflect.ValueOf(c).Elem()
	for name := range strings.SplitSeq(path, ".") {
		i := 0
		for v.Type().Field(i).Tag.Get("yaml") != name { // which panics if there is no such key
			i++
		}
		v = v.Field(i)
	}
	return v
}

// Differs returns the names of sections that differ from those of other, except the sections that a running
// server can change.
func (c *Config) Differs(other *Config) (sections []string) {
	a, b := reflect.ValueOf(c).Elem(), reflect.ValueOf(other).Elem()
	for i := range a.NumField() {
		name := a.Type().Field(i).Tag.Get("yaml") // "" is not a section
		if name != "" && !slices.Contains(followed, name) &&
			!reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			sections = append(sections, name)
		}
	}
	return sections
}

// followed lists the sections that a running server takes over from a changed file.
var followed = []string{"tools", "selftest", "upstreams", "sandbox", "secrets", "notify"}

// Origin returns the source of a value: a flag, a variable, or FILE:LINE:COL; "" for a default.
func (c *Config) Origin(path string) string {
	if from := c.set[path]; from != "" {
		return from
	}
	return c.source.Place(path)
}

// Overridden reports whether a flag, --set or a variable sets the value at a path.
func (c *Config) Overridden(path string) bool { return c.set[path] != "" }

// Given reports whether the file, a flag or a variable sets the value at a path.
func (c *Config) Given(path string) bool { return c.Origin(path) != "" }

// MaxResult returns tasks.maxResult; 0 if it is not given, and what suits the client applies.
func (c *Config) MaxResult() Size {
	if c.Given("tasks.maxResult") {
		return c.Tasks.MaxResult
	}
	return 0
}

// Dir returns the absolute directory of the file, where its commands run; "" without a file.
func (c *Config) Dir() string {
	if c.source.Name() == "" {
		return ""
	}
	// "" if there is no working directory: then runnel's own.
	dir, _ := filepath.Abs(filepath.Dir(c.source.Name()))
	return dir
}

// Detaches returns the name of a tool whose calls are all detached, "" if no tool's are.
func (c *Config) Detaches() string {
	return c.firstTool(func(t *Command) bool { return t.Detach == DetachAlways })
}

// firstTool returns the first name, in alphabetical order, of a tool that fits; "" if none does.
func (c *Config) firstTool(fits func(*Command) bool) string {
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		if tool := c.Tools[name]; fits(&tool) {
			return name
		}
	}
	return ""
}

// Locate adds the source to an error about the value at a path: a flag, a variable, or a place in the file.
// An *Error is about one of the value's keys. Of joined errors, each gets its own source.
func (c *Config) Locate(path string, err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var errs []error
		for _, err := range joined.Unwrap() {
			errs = append(errs, c.Locate(path, err))
		}
		return JoinErrors(errs)
	}
	problem := err.Error()
	hint := ""
	key := ""
	if about, ok := errors.AsType[*Error](err); ok {
		problem = about.Problem
		hint = strict.Allow(about.Allowed)
		key = about.Key
	}
	full := Join(path, key)
	for at := full; at != ""; at = at[:max(strings.LastIndexAny(at, ".["), 0)] {
		if from := c.set[at]; from != "" {
			return errors.New(from + ": " + strict.Hinted(problem, hint))
		}
	}
	return c.source.Locate(path, full, problem, hint)
}
