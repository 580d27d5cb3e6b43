package process

import (
	"maps"
	"slices"
	"strings"
)

// VariablesVariable names the file in which a command finds its task's variables. What the file says when the command has ended is merged
// into them.
const VariablesVariable = "RUNNEL_VARIABLES"

// MarkVariable is the variable of the mark. It holds one for each command, and for each start of a server.
const MarkVariable = "RUNNEL_MARK"

// Environ is the environment of a child that runs in dir: vars without those to drop, and what is added. What runnel itself found in its
// own because it is the command of a call is dropped, too.
func Environ(vars []string, dir string, add map[string]string, drop ...string) []string {
	dropped := map[string]bool{}
	for name := range add {
		dropped[variableKey(name)] = true
	}
	for _, name := range slices.Concat(drop, []string{"PWD", VariablesVariable, MarkVariable}) {
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

// SameVariable reports whether two names are those of one variable.
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
