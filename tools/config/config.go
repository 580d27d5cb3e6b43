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
)

// Config holds the values of a config file. Flags and environment variables override them. Make one with Parse or Default.
type Config struct {
	Server   Server   `yaml:"server"`
	Limits   Limits   `yaml:"limits"`
	Partials Partials `yaml:"partials"`
	Tasks    Tasks    `yaml:"tasks"`
	State    State    `yaml:"state"`
	History  History  `yaml:"history"`
	Fleet    Fleet    `yaml:"fleet"`
	// FallbackTools says when the tools for clients without tasks are listed: auto (to clients that have not used tasks), always, never.
	FallbackTools FallbackTools      `yaml:"fallbackTools"`
	Compat        Compat             `yaml:"compat"`
	Tools         map[string]Command `yaml:"tools"`

	Upstreams map[string]Upstream `yaml:"upstreams"` // other servers whose tools are served, too

	Secrets Secrets `yaml:"secrets"`

	Notify *Notify `yaml:"notify"` // who is notified of the end of a task whose tool has no notify; nil = nobody

	file   string            // the file's name; "" = no file
	lines  []string          // its text
	places map[string]place  // of the values in the file, by their paths, such as tools.test.command[2]
	set    map[string]string // the flags and variables that override values, such as --max-line, by the values' paths
}

// Server describes the server to clients.
type Server struct {
	Name         string `yaml:"name"`
	Instructions string `yaml:"instructions"`
	Owner        string `yaml:"owner"` // the owner whose tasks this process sees
}

// Limits bounds a session.
type Limits struct {
	MaxLine     Size  `yaml:"maxLine"`     // the longest incoming line
	MaxInFlight int   `yaml:"maxInFlight"` // requests in flight
	Drain       Drain `yaml:"drain"`       // how long calls in flight may continue after EOF
}

// Partials configures how output is delivered while a tool runs.
type Partials struct {
	Pace       Duration `yaml:"pace"`       // the shortest time between two partials of a task; 0 = a notification for each chunk
	MaxBytes   Size     `yaml:"maxBytes"`   // the most content of one notification
	MaxPending Size     `yaml:"maxPending"` // undelivered output of one task; beyond it the tool waits
}

// Tasks configures how long tasks are kept, how many there may be, and how calls are answered.
type Tasks struct {
	TTL          Duration `yaml:"ttl"`          // ttl of a task whose requestor asks for none
	MaxTTL       Duration `yaml:"maxTtl"`       // the longest ttl
	PollInterval Duration `yaml:"pollInterval"` // suggested to clients that poll
	MaxLive      int      `yaml:"maxLive"`      // tasks that have not ended

	MaxStartsPerMinute   int `yaml:"maxStartsPerMinute"`   // new tasks a minute; 0 = no limit
	MaxRequestsPerSecond int `yaml:"maxRequestsPerSecond"` // requests of the task methods, with a burst of one second's worth; 0 = no limit

	SyncWait      Duration   `yaml:"syncWait"`      // when an unfinished plain call is handed over; 0 = never
	ImmediateWait Duration   `yaml:"immediateWait"` // how long an immediate-mode call may take before it becomes a task
	Heartbeat     Duration   `yaml:"heartbeat"`     // the longest silence towards a client that asked for progress
	FailedExit    FailedExit `yaml:"failedExit"`    // the status of a task whose tool returned an error result
	MaxResult     Size       `yaml:"maxResult"`     // text in the result of a command without maxResult
}

// State configures where tasks are kept.
type State struct {
	Dir      string `yaml:"dir"`      // "" = the user's state directory; memory; or a server for many machines: nats://HOST, redis://HOST, dynamodb://TABLE
	MaxState Size   `yaml:"maxState"` // the size of all tasks together; above it, the tasks that ended first are deleted
}

// History says what a state on disk keeps of the calls that ended without becoming tasks, for people (tasks.History).
type History struct {
	Calls int      `yaml:"calls"` // of the owner; 0 = none are kept
	Age   Duration `yaml:"age"`   // since they began
	Log   Size     `yaml:"log"`   // the end of each one's output
}

// Fleet names classes of workers, in addition to those in Command.Runs.
type Fleet struct {
	Classes []string `yaml:"classes"` // the tools of these workers are served, too
}

// InMemory reports whether tasks end with the process.
func (s *State) InMemory() bool { return s.Dir == "memory" }

// IsURL reports whether tasks are kept by a server, which other machines can use, too.
func (s *State) IsURL() bool { return strings.Contains(s.Dir, "://") }

// OnDisk reports whether tasks are kept in a directory on this machine.
func (s *State) OnDisk() bool { return !s.InMemory() && !s.IsURL() }

// Place returns a name for a state that is not on disk. It shows only the scheme of a URL, which may contain a password.
func (s *State) Place() string {
	scheme, _, found := strings.Cut(s.Dir, "://")
	if found {
		return scheme + "://..."
	}
	return s.Dir
}

// ErrNoHome is returned by StateDir if the config names no directory and the user has no home.
var ErrNoHome = errors.New("neither " + StateVariable + " nor " + HomeVariable + " is set to an absolute path")

// StateDir returns the directory where tasks are kept: the configured one, relative to the config file if that names it, or runnel in the
// user's state directory.
func (c *Config) StateDir(getenv func(string) string) (string, error) {
	home := getenv(HomeVariable)
	dir := c.State.Dir
	switch {
	case dir == "":
		if state := getenv(StateVariable); filepath.IsAbs(state) {
			return filepath.Join(state, "runnel"), nil
		}
		if !filepath.IsAbs(home) {
			return "", ErrNoHome
		}
		return filepath.Join(home, stateBelowHome, "runnel"), nil
	case inHome(dir):
		if !filepath.IsAbs(home) {
			return "", fmt.Errorf("state.dir %s: %s is not set to an absolute path", dir, HomeVariable)
		}
		return filepath.Join(home, dir[1:]), nil
	case !filepath.IsAbs(dir) && c.file != "" && c.set["state.dir"] == "":
		dir = filepath.Join(filepath.Dir(c.file), dir)
	}
	return filepath.Abs(dir)
}

// inHome reports whether a directory is relative to the user's home: ~ or ~/x.
func inHome(dir string) bool { return dir == "~" || strings.HasPrefix(filepath.ToSlash(dir), "~/") }

// Compat relaxes rules of the specification.
type Compat struct {
	RequiredFallthrough bool `yaml:"requiredFallthrough"` // a tool that requires a task also runs without one
}

// FallbackTools is auto, always or never; see [Config].
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

// Set overrides the value at a path, such as limits.maxLine, by a flag or a variable. from names that source, such as --max-line, for the
// errors of Check.
func (c *Config) Set(path, text, from string) error {
	if err := setText(c.at(path), text); err != nil {
		return err
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

// Differs returns the names of sections that differ from those of other, except the sections that a running server can change. Use it to
// report what needs a restart.
func (c *Config) Differs(other *Config) (sections []string) {
	a, b := reflect.ValueOf(c).Elem(), reflect.ValueOf(other).Elem()
	for i := range a.NumField() {
		name := a.Type().Field(i).Tag.Get("yaml") // "" is not a section
		if name != "" && !slices.Contains(followed, name) && !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			sections = append(sections, name)
		}
	}
	return sections
}

// followed lists the sections that a running server takes over from a changed file.
var followed = []string{"tools", "upstreams", "secrets", "notify"}

// Origin returns the source of a value: a flag, a variable, or FILE:LINE:COL; "" for a default.
func (c *Config) Origin(path string) string {
	if from := c.set[path]; from != "" {
		return from
	}
	if p, ok := c.places[path]; ok {
		return fmt.Sprintf("%s:%d:%d", c.file, p.key.line, p.key.column)
	}
	return ""
}

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
	if c.file == "" {
		return ""
	}
	dir, _ := filepath.Abs(filepath.Dir(c.file)) // "" if there is no working directory: then runnel's own
	return dir
}

// Detaches returns the name of a tool whose calls are detached, "" if no tool's are.
func (c *Config) Detaches() string {
	return c.firstTool(func(t *Command) bool { return t.Detach })
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

// Locate adds the source to an error about the value at a path: a flag, a variable, or a place in the file. An *Error is about one of the
// value's keys.
func (c *Config) Locate(path string, err error) error {
	problem, hint, key := err.Error(), "", ""
	if about, ok := errors.AsType[*Error](err); ok {
		problem, hint, key = about.Problem, allow(about.Allowed), about.Key
	}
	full := Join(path, key)
	for at := full; at != ""; at = at[:max(strings.LastIndexAny(at, ".["), 0)] {
		if from := c.set[at]; from != "" {
			return errors.New(from + ": " + hinted(problem, hint))
		}
	}
	problem = about(full) + problem
	try := full
	for c.places[try] == (place{}) && len(try) > len(path) {
		try = try[:max(strings.LastIndexAny(try, ".["), len(path))]
	}
	p, ok := c.places[try]
	switch {
	case !ok:
		return errors.New(hinted(problem, hint))
	case try == path || p.value == position{}: // it is about the whole value, or about a key
		return c.mistake(p.key, problem, hint)
	}
	return c.mistake(p.value, problem, hint)
}
