package process

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// FindProgram looks a command up as execvp does, in the PATH that the command itself will see.
// As in os/exec, a relative directory in PATH is not searched.
func FindProgram(name, dir, path string) (string, error) {
	if filepath.Base(name) != name { // it is a path
		full := name
		if !filepath.IsAbs(full) {
			full = filepath.Join(dir, name)
		}
		found, err := exec.LookPath(full) // on Windows with its extension
		if err != nil {
			return "", fmt.Errorf("cannot start %s: %s: %w", name, full, RootCause(err))
		}
		return found, nil
	}
	var why error = notFound{}
	for _, d := range filepath.SplitList(path) {
		if !filepath.IsAbs(d) {
			continue
		}
		full := filepath.Join(d, name)
		found, err := exec.LookPath(full)
		if err == nil {
			return found, nil
		}
		if errors.Is(err, os.ErrPermission) {
			why = errors.New("not executable")
		}
	}
	return "", fmt.Errorf("cannot start %s: %w in PATH=%s", name, why, path)
}

// notFound is fs.ErrNotExist in the words of a shell.
type notFound struct{}

func (notFound) Error() string { return "not found" }

func (notFound) Is(err error) bool { return err == fs.ErrNotExist }

// RootCause returns the cause of an error of package os.
func RootCause(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}

// SupervisorName is the argv[0] of a supervisor, which runs a detached task. The supervisor, and all that it
// starts, outlives the command that started it.
const SupervisorName = "runnel-supervisor"

// ThisProgram returns the file of the running program, which is also its guard and its supervisor. Without it
// no command can be started.
func ThisProgram() (string, error) {
	if runtime.GOOS != "linux" {
		return os.Executable()
	}
	const program = "/proc/self/exe" // still this program when its file has been replaced
	if _, err := os.Lstat(program); err != nil {
		return "", fmt.Errorf("%w: runnel finds its own program there; mount /proc", err)
	}
	return program, nil
}

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
