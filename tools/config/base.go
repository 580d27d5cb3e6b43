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
