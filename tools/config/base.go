package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"runnel/tools/process"
	"runnel/tools/secrets"
)

// Base holds what the commands and the upstreams of one config share. Pass it to the packages that make tools
// from a config.
type Base struct {
	Dir  string   // their working directory, to which "dir" is relative; "" = runnel's own
	Vars []string // "NAME=value"; nil = runnel's own environment

	Version string // runnel's, which upstreams see
	// Masked in the output of upstreams; nil = none. Calls of tools have the secrets of their run.
	Secrets   *secrets.Current
	MaxResult Size     // for commands without maxResult; 0 = what suits the client
	Sandbox   *Sandbox // for commands and upstreams without sandbox; nil = none
}

// Inherit returns the working directory of a child whose config has dir, and the variables that it inherits.
// It checks the names of add, the variables of the child's config, but does not add them. A mistake is an
// *Error.
func (b *Base) Inherit(dir string, add map[string]string) (where string, vars []string, err error) {
	vars = b.Vars
	if vars == nil {
		vars = os.Environ()
	}
	switch {
	case inHome(dir):
		home, _ := process.LookupEnv(vars, HomeVariable)
		if !filepath.IsAbs(home) {
			return "", nil, &Error{Key: "dir", Problem: dir + ": " + HomeVariable + " is not set",
				Allowed: "a path from / or from the config file's directory"}
		}
		dir = filepath.Join(home, dir[1:])
	case !filepath.IsAbs(dir):
		dir = filepath.Join(b.Dir, dir)
	}
	if where, err = filepath.Abs(dir); err != nil {
		return "", nil, fmt.Errorf("finding the directory: %w", err)
	}
	for name := range add {
		if !isVariable(name) {
			return "", nil, &Error{Key: "env", Problem: fmt.Sprintf("%q is not a name for a variable", name),
				Allowed: "a name without = and blanks"}
		}
	}
	return where, vars, nil
}

// isVariable reports whether a text can be the name of a variable.
func isVariable(name string) bool { return name != "" && !strings.ContainsAny(name, "= \t\n\x00") }

// Upstream is one entry of "upstreams:" in the config file: another MCP server whose tools are served, too.
type Upstream struct {
	// The server's program and its arguments; it runs in the config file's directory.
	Command []string          `yaml:"command"`
	Env     map[string]string `yaml:"env"` // added to runnel's own environment
	URL     string            `yaml:"url"` // instead of both: the server's endpoint for Streamable HTTP
	// Sent with each request; ${NAME} in a value or in URL is a variable of runnel's environment.
	Headers map[string]string `yaml:"headers"`
	Prefix  string            `yaml:"prefix"` // added before the names of its tools; default: none
	// Allow and Deny list names of tools, without the prefix. Without Allow, all tools are served except
	// those in Deny.
	Allow   []string      `yaml:"allow"`
	Deny    []string      `yaml:"deny"`
	Restart RestartPolicy `yaml:"restart"`
	// How long a ping may stay unanswered while a call is silent; 0 = for ever (default).
	HungAfter *Duration `yaml:"hungAfter"`
	Runs      string    `yaml:"runs"`    // the class of the workers that run it; "" = it runs here
	Sandbox   *Sandbox  `yaml:"sandbox"` // what a server with a command may do; nil = as in Config.Sandbox
}

// RestartPolicy says when an upstream that has ended is started again: on-failure, always or never.
type RestartPolicy string

// UnmarshalText reads one of the three words.
func (r *RestartPolicy) UnmarshalText(text []byte) error {
	return oneOf((*string)(r), string(text), "on-failure", "always", "never")
}

// Again reports whether an upstream is to be started again. failed: it could not be started, hung, or did not
// end with exit code 0.
func (r RestartPolicy) Again(failed bool) bool { return r == "always" || failed && r != "never" }

// AndServers completes a number of tools, which lacks the tools of upstreams: those are known only when the
// upstreams run.
func (c *Config) AndServers() string {
	switch n := len(c.Upstreams); n {
	case 0:
		return ""
	case 1:
		return " and those of another server"
	default:
		return fmt.Sprintf(" and those of %d other servers", n)
	}
}
