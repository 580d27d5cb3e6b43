package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"runnel/tools/process"
	"runnel/tools/secrets"
)

// Base holds what the commands and the servers of one configuration have in common.
type Base struct {
	Dir  string   // where they run, and where a relative "dir" begins; "" = runnel's own directory
	Vars []string // "NAME=value"; nil = runnel's own environment

	Version   string           // runnel's, for servers
	Secrets   *secrets.Current // masked in what servers say; nil = nothing is masked. Calls of tools have those of their run
	MaxResult Size             // for commands without one of their own; 0 = the default of tasks.maxResult
}

// Inherit returns the directory of a child whose config says dir, and the variables that it inherits. add holds the variables of its
// config, which are only checked. The error is an *Error.
func (b *Base) Inherit(dir string, add map[string]string) (where string, vars []string, err error) {
	vars = b.Vars
	if vars == nil {
		vars = os.Environ()
	}
	switch {
	case inHome(dir):
		home, _ := process.LookupEnv(vars, HomeVariable)
		if !filepath.IsAbs(home) {
			return "", nil, &Error{Key: "dir", Problem: dir + ": " + HomeVariable + " is not set", Allowed: "a path from / or from the config file's directory"}
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
			return "", nil, &Error{Key: "env", Problem: fmt.Sprintf("%q is not a name for a variable", name), Allowed: "a name without = and blanks"}
		}
	}
	return where, vars, nil
}

// isVariable reports whether a text can be the name of a variable.
func isVariable(name string) bool { return name != "" && !strings.ContainsAny(name, "= \t\n\x00") }
