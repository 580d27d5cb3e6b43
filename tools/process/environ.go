package process

import (
	"maps"
	"slices"
	"strings"
)

// VariablesVariable names the file with the variables of a command's task. The file's content at the
// command's end is merged into the task's variables.
const VariablesVariable = "RUNNEL_VARIABLES"

// markVariable is the environment variable of the mark, which differs for each command and for each start of
// a server.
const markVariable = "RUNNEL_MARK"

// Environ returns the environment of a child that runs in dir: vars without those in drop, with those in add.
// Variables that runnel itself got as the command of a call are dropped, too.
func Environ(vars []string, dir string, add map[string]string, drop ...string) []string {
	dropped := map[string]bool{}
	for name := range add {
		dropped[variableKey(name)] = true
	}
	for _, name := range slices.Concat(drop, []string{"PWD", VariablesVariable, markVariable}) {
		dropped[variableKey(name)] = true
	}
	env := make([]string, 0, len(vars)+len(add)+2)
	for _, v := range vars {
		name, _, _ := strings.Cut(v, "=")
		if !dropped[variableKey(name)] {
			env = append(env, v)
		}
	}
	env = append(env, "PWD="+dir)
	for _, name := range slices.Sorted(maps.Keys(add)) {
		env = append(env, name+"="+add[name])
	}
	return env
}

// SameVariable reports whether two names mean the same variable.
func SameVariable(a, b string) bool { return variableKey(a) == variableKey(b) }

// LookupEnv returns the value of a variable.
func LookupEnv(vars []string, name string) (string, bool) {
	for _, variable := range slices.Backward(vars) {
		if key, value, ok := strings.Cut(variable, "="); ok && variableKey(key) == variableKey(name) {
			return value, true
		}
	}
	return "", false
}
