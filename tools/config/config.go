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

// Config is what a config file can say. Flags and environment variables are set over it.
type Config struct {
	Server   Server   `yaml:"server"`
	Limits   Limits   `yaml:"limits"`
	Partials Partials `yaml:"partials"`
	Tasks    Tasks    `yaml:"tasks"`
	State    State    `yaml:"state"`
	Fleet    Fleet    `yaml:"fleet"`
	// FallbackTools says when the tools for clients without tasks are listed: auto (in sessions that have not shown that they can do tasks), always, never.
	FallbackTools FallbackTools      `yaml:"fallbackTools"`
	Compat        Compat             `yaml:"compat"`
	Tools         map[string]Command `yaml:"tools"`

	Upstreams map[string]Upstream `yaml:"upstreams"` // other servers, whose tools are served, too

	Secrets Secrets `yaml:"secrets"`

	file   string            // the name of the file, "" if there is none
	lines  []string          // its text
	places map[string]place  // where the values stand in the file, by their paths, such as tools.test.command[2]
	set    map[string]string // the flags and variables that set a value over the file, such as --max-line, by its path
}

// Server is what clients are told about the server.
type Server struct {
	Name         string `yaml:"name"`
	Instructions string `yaml:"instructions"`
	Owner        string `yaml:"owner"` // the owner whose tasks this process sees
}

// Limits bounds a session.
type Limits struct {
	MaxLine     Size  `yaml:"maxLine"`     // longest incoming line
	MaxInFlight int   `yaml:"maxInFlight"` // requests being answered at once
	Drain       Drain `yaml:"drain"`       // after EOF, how long calls in flight may go on
}

// Partials is how output is delivered while a tool runs.
type Partials struct {
	Pace       Duration `yaml:"pace"`       // least time between two partials of a task; 0 = each chunk its own notification
	MaxBytes   Size     `yaml:"maxBytes"`   // content of one notification
	MaxPending Size     `yaml:"maxPending"` // undelivered output of one task; beyond it the tool waits
}

// Tasks is how long tasks are kept, and how many.
type Tasks struct {
	TTL          Duration `yaml:"ttl"`          // life of a task whose requestor asks for none
	MaxTTL       Duration `yaml:"maxTtl"`       // longest life of a task
	PollInterval Duration `yaml:"pollInterval"` // suggested to clients that poll
	MaxLive      int      `yaml:"maxLive"`      // tasks that have not ended

	MaxStartsPerMinute   int `yaml:"maxStartsPerMinute"`   // new tasks; 0 = no limit
	MaxRequestsPerSecond int `yaml:"maxRequestsPerSecond"` // requests of the task methods, with a burst of one second's worth; 0 = no limit

	SyncWait      Duration   `yaml:"syncWait"`      // when a plain call that is not finished is handed over; 0 = never
	ImmediateWait Duration   `yaml:"immediateWait"` // how long an immediate-mode call may take before it becomes a task
	Heartbeat     Duration   `yaml:"heartbeat"`     // longest silence towards a client that asked for progress
	FailedExit    FailedExit `yaml:"failedExit"`    // the status of a task whose tool returned an error result
	MaxResult     Size       `yaml:"maxResult"`     // text in the result of a command whose own config says nothing
}

// State is where tasks live.
type State struct {
	Dir      string `yaml:"dir"`      // "" = the user's state directory, memory = nowhere, nats://HOST, redis://HOST or dynamodb://TABLE = many machines'
	MaxState Size   `yaml:"maxState"` // size of all tasks together; beyond it those that ended first are forgotten
}

// Fleet is what workers do for this server, beside the tools with Command.Runs.
type Fleet struct {
	Classes []string `yaml:"classes"` // of workers whose tools are served, too
}

// InMemory reports whether nothing is kept.
func (s *State) InMemory() bool { return s.Dir == "memory" }

// IsURL reports whether tasks are kept by servers, where other machines find them, too.
func (s *State) IsURL() bool { return strings.Contains(s.Dir, "://") }

// OnDisk reports whether tasks are kept in a directory of this machine.
func (s *State) OnDisk() bool { return !s.InMemory() && !s.IsURL() }

// Place says where tasks live that are not on disk. It shows no more of a URL than its scheme: somebody may have put a password there.
func (s *State) Place() string {
	scheme, _, found := strings.Cut(s.Dir, "://")
	if found {
		return scheme + "://..."
	}
	return s.Dir
}

// ErrNoHome is what StateDir returns when no directory was named and the user has none.
var ErrNoHome = errors.New("neither " + StateVariable + " nor " + HomeVariable + " is set to an absolute path")

// StateDir is the directory where tasks live: the one that is named, from the config file's directory if that names it, or
// runnel in the user's state directory.
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
	case InHome(dir):
		if !filepath.IsAbs(home) {
			return "", fmt.Errorf("state.dir %s: %s is not set to an absolute path", dir, HomeVariable)
		}
		return filepath.Join(home, dir[1:]), nil
	case !filepath.IsAbs(dir) && c.file != "" && c.set["state.dir"] == "":
		dir = filepath.Join(filepath.Dir(c.file), dir)
	}
	return filepath.Abs(dir)
}

// InHome reports whether a directory is written as one of the user's: ~ or ~/x.
func InHome(dir string) bool { return dir == "~" || strings.HasPrefix(filepath.ToSlash(dir), "~/") }

// Compat relaxes what the specification asks.
type Compat struct {
	RequiredFallthrough bool `yaml:"requiredFallthrough"` // a tool that requires a task runs without one, too
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
		return Wrong("such as 500ms or 2s, or -1 = until all calls are done", "%q is no duration", text)
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

// Set sets a value by its path, such as limits.maxLine, over what the file says. from names what sets
// it, such as --max-line, for the errors that Check may find.
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

// Text is the value of a path as Set reads it.
func (c *Config) Text(path string) string { return fmt.Sprint(c.at(path).Interface()) }

// at is the value of a path.
func (c *Config) at(path string) reflect.Value {
	v := reflect.ValueOf(c).Elem()
	for name := range strings.SplitSeq(path, ".") {
		_, fields := keysOf(v.Type())
		i, ok := fields[name]
		if !ok {
			panic("internal error: no config key " + path)
		}
		v = v.Field(i)
	}
	return v
}

// Differs returns the sections that differ from those of other, but for those that a running server follows.
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

// followed are the sections that a running server follows.
var followed = []string{"tools", "upstreams", "secrets"}

// Origin returns where a value comes from: a flag, a variable, or FILE:LINE:COL; "" for a default.
func (c *Config) Origin(path string) string {
	if from := c.set[path]; from != "" {
		return from
	}
	if p, ok := c.places[path]; ok {
		return fmt.Sprintf("%s:%d:%d", c.file, p.key.line, p.key.column)
	}
	return ""
}

// Dir is the directory of the file, where its commands run: "" if there is none.
func (c *Config) Dir() string {
	if c.file == "" {
		return ""
	}
	dir, _ := filepath.Abs(filepath.Dir(c.file)) // without a working directory "", which is where runnel is
	return dir
}

// Detaches names a tool whose calls are detached, "" if there is none.
func (c *Config) Detaches() string {
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		if c.Tools[name].Detach {
			return name
		}
	}
	return ""
}

// Locate turns an error about the value at a path (or, if it is a *Error, about one of its keys)
// into one that says what set the value: a flag, a variable, or a place in the file.
func (c *Config) Locate(path string, err error) error {
	problem, hint, key := err.Error(), "", ""
	if about, ok := errors.AsType[*Error](err); ok {
		problem, hint, key = about.Problem, allow(about.Allowed), about.Key
	}
	full := Join(path, key)
	if from := c.set[full]; from != "" {
		return errors.New(from + ": " + hinted(problem, hint))
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
	case try == path || p.value == position{}: // it concerns the tool as a whole, or a key
		return c.mistake(p.key, problem, hint)
	}
	return c.mistake(p.value, problem, hint)
}
