package tools

import (
	"fmt"
	"maps"
	"path/filepath"
	"runnel/tools/process"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

// UpstreamConfig is one entry of "upstreams:" in the config file: another MCP server, whose tools become runnel's.
type UpstreamConfig struct {
	Command []string          `yaml:"command"` // the server's program and its arguments; it runs in the config file's directory
	Env     map[string]string `yaml:"env"`     // added to runnel's own environment
	Prefix  string            `yaml:"prefix"`  // stands before the names of its tools; default: none
	// Allow and Deny name tools as the server does, without the prefix. Without Allow all are taken that Deny does not name.
	Allow     []string      `yaml:"allow"`
	Deny      []string      `yaml:"deny"`
	Restart   RestartPolicy `yaml:"restart"`   // default on-failure
	HungAfter *Duration     `yaml:"hungAfter"` // how long it may leave a ping unanswered; 0 = for ever; default DefaultHungAfter
}

// DefaultHungAfter is how long a server may leave a ping unanswered before it counts as hung: many have one thread, and answer
// nothing while a tool computes.
const DefaultHungAfter = Duration(time.Minute)

// RestartPolicy says when a server that has ended is started again: on-failure, always or never.
type RestartPolicy string

// UnmarshalText reads one of the three words.
func (r *RestartPolicy) UnmarshalText(text []byte) error {
	return oneOf((*string)(r), string(text), "on-failure", "always", "never")
}

// again reports whether a server is to be started again. failed: it could not be started, hung, or ended otherwise than with
// exit code 0.
func (r RestartPolicy) again(failed bool) bool { return r == "always" || failed && r != "never" }

// maxPrefix leaves half of a tool's name to the server that it comes from.
const maxPrefix = 64

// NewUpstream checks a configuration and makes the upstream of a name, which starts when its tools are needed first. What is
// wrong with it is a *ConfigError.
func NewUpstream(name string, config UpstreamConfig, env Environment, log zerolog.Logger) (*Upstream, error) {
	switch {
	case len(config.Command) == 0:
		return nil, &ConfigError{Problem: "says no server to start", Allowed: "command (a list of words)"}
	case config.Command[0] == "":
		return nil, &ConfigError{Key: "command[0]", Problem: "is empty", Allowed: "a program's name or path"}
	case config.Prefix != "" && !isToolName(config.Prefix) || len(config.Prefix) > maxPrefix:
		return nil, &ConfigError{Key: "prefix", Problem: fmt.Sprintf("%q cannot stand in a tool's name", config.Prefix), Allowed: fmt.Sprintf("up to %d letters, digits, _, - and .", maxPrefix)}
	case config.HungAfter != nil && *config.HungAfter < 0:
		return nil, &ConfigError{Key: "hungAfter", Problem: config.HungAfter.String() + " is negative", Allowed: "0 (for ever) or more"}
	}
	for _, tool := range config.Deny {
		if slices.Contains(config.Allow, tool) {
			return nil, &ConfigError{Key: "deny", Problem: fmt.Sprintf("%q stands in allow, too", tool), Allowed: "one of the two"}
		}
	}
	// What a server inherits is what a command inherits.
	inherits := Command{name: name, config: CommandConfig{Env: config.Env}}
	if err := inherits.buildEnvironment(env); err != nil {
		return nil, err
	}
	before, _ := process.LookupEnv(inherits.env(), hopsVariable)
	hops, _ := strconv.Atoi(before) // "" is 0
	if hops >= maxHops {
		return nil, &ConfigError{Problem: fmt.Sprintf("there are %d runnels before this one already, each the upstream of another", hops), Allowed: "a config for the upstream, by --config, that does not name itself"}
	}
	vars := append(inherits.env(), fmt.Sprintf("%s=%d", hopsVariable, hops+1))
	u := newUpstream(name, config, inherits.dir, vars, log)
	u.version = env.Version
	return u, nil
}

const (
	// hopsVariable tells an upstream how many runnels stand before it. One that reads the config of the runnel that started it would
	// start another one, and so on.
	hopsVariable = "RUNNEL_HOPS"
	maxHops      = 8
)

// Servers makes the upstreams that the config describes, sorted by name. They run as commands do; see Commands.
// version is runnel's, which they are told.
func (c *Config) Servers(vars []string, version string, log zerolog.Logger) ([]*Upstream, error) {
	env := Environment{Vars: vars, Version: version}
	if c.file != "" {
		env.Dir = filepath.Dir(c.file)
	}
	var list []*Upstream
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.Upstreams)) {
		u, err := NewUpstream(name, c.Upstreams[name], env, log)
		if err != nil {
			errs = append(errs, c.locate(join("upstreams", name), err))
			continue
		}
		list = append(list, u)
	}
	return list, joinByPlace(errs)
}

// same reports whether an upstream is what another one is: nothing about it has changed in the config.
func (u *Upstream) same(as *Upstream) bool {
	a, b := u.config, as.config
	return u.name == as.name && slices.Equal(a.Command, b.Command) && a.Prefix == b.Prefix && slices.Equal(a.Allow, b.Allow) &&
		slices.Equal(a.Deny, b.Deny) && a.Restart == b.Restart && u.hungAfter == as.hungAfter && u.dir == as.dir &&
		strings.Join(u.env, "\x00") == strings.Join(as.env, "\x00")
}
