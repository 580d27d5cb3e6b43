//go:build unix

package command

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"runnel/tools"
	"runnel/tools/config"
)

func TestCommandThatCannotStart(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "plain"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := config.Base{Dir: dir, Vars: []string{"PATH=" + dir + ":/nowhere", "HOME=" + dir + "/home"}}
	for _, test := range []struct {
		config config.Command
		want   string
	}{
		{config.Command{Command: []string{"gotest"}},
			"cannot start gotest: not found in PATH=" + dir + ":/nowhere"},
		{config.Command{Command: []string{"plain"}}, "cannot start plain: not executable in PATH=" + dir},
		{config.Command{Command: []string{"x"}, Env: map[string]string{"PATH": "/own"}},
			"not found in PATH=/own"},
		{config.Command{Command: []string{"./plain"}},
			"cannot start ./plain: " + dir + "/plain: permission denied"},
		{config.Command{Command: []string{"/bin/sh"}, Dir: "missing"},
			"directory " + dir + "/missing: no such file"},
		{config.Command{Command: []string{"/bin/sh"}, Dir: "~/missing"},
			"directory " + dir + "/home/missing: no such file"},
		{config.Command{Command: []string{"/bin/sh"}, Dir: "plain"},
			"directory " + dir + "/plain: not a directory"},
		{config.Command{Command: []string{"{{cmd}}", "/bin/sh"}, Input: config.Object(`{"cmd":{}}`)},
			"names the command to run has no value"},
		{config.Command{Command: []string{"/bin/sh", "{{big}}"},
			Input: config.Object(`{"big":{"default":"` + strings.Repeat("x", 1<<18) + `"}}`)},
			"argument list too long"},
	} {
		c, err := New("t", test.config, env)
		if err != nil {
			t.Fatal(err)
		}
		result, err := c.Call(t.Context(), &tools.Call{}, nil)
		if err != nil || !result.IsError || !strings.Contains(contentText(t, result.Content[0]), test.want) {
			t.Errorf("%v: %+v, %v, want %q", test.config.Command, result, err, test.want)
		}
	}
}

func TestHomeThatIsNotSet(t *testing.T) {
	_, err := New("t", config.Command{Command: []string{"ls"}, Dir: "~/x"}, config.Base{Vars: []string{}})
	if want := "dir: ~/x: HOME is not set (allowed: a path from / or from the config file's directory)"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestEndedCallStartsNothing(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("cancelled by the client")
	cancel(why)
	c := mustCommand(t, config.Command{Command: []string{"/bin/sh", "-c", "touch started"}})
	if result, err := c.Call(ctx, &tools.Call{}, nil); result != nil || !errors.Is(err, why) {
		t.Errorf("%+v, %v", result, err)
	}
	if _, err := os.Stat(filepath.Join(c.dir, "started")); err == nil {
		t.Error("the command was started")
	}
}

func TestShellArguments(t *testing.T) {
	t.Setenv("LEAK", "from runnel")
	c, err := New("t", config.Command{
		Shell: `printf '%s|' "$host" "$list" "$n" "$LEAK" "${other-unset}" "${given-unset}" "$CONFIG"; pwd`,
		Input: config.Object(`{"type":"object","properties":{"host":{},"list":{},"n":{"default":3},"LEAK":{},"given":{}}}`),
		Env:   map[string]string{"CONFIG": "c"},
		Dir:   "/",
	}, config.Base{})
	if err != nil {
		t.Fatal(err)
	}
	result, _, _ := call(t, c, `{"host":"$(id); \"x\"","list":["a b","c"],"other":"not declared","PATH":"/evil"}`)
	if got, want := contentText(t, result.Content[0]),
		"$(id); \"x\"|a b\nc|3||unset|unset|c|/\n"; got != want {
		t.Errorf("output %q, want %q", got, want)
	}
}

func TestEnvironmentOfACommand(t *testing.T) {
	dir := t.TempDir()
	c, err := New("t", config.Command{Command: []string{"env"},
		Env: map[string]string{"B": "config"}, Dir: "."},
		config.Base{Dir: dir, Vars: []string{"PATH=" + os.Getenv("PATH"), "A=runnel", "B=runnel",
			"PWD=/wrong", "RUNNEL_VARIABLES=/outer"}})
	if err != nil {
		t.Fatal(err)
	}
	result, _, _ := call(t, c, `{}`)
	got, _, ok := strings.Cut(contentText(t, result.Content[0]), "RUNNEL_VARIABLES=/")
	if want := "PATH=" + os.Getenv("PATH") + "\nA=runnel\nPWD=" + dir + "\nB=config\n"; got != want || !ok {
		t.Errorf("environment %q, want %q", got, want)
	}
}

func TestDescribeWholeSchema(t *testing.T) {
	schema := `{"type":"object","properties":{"b":{"type":"string"},"a":true},"required":["b"]}`
	c := mustCommand(t, config.Command{Command: []string{"echo", "{{a}}", "{{b}}"},
		Input: config.Object(schema)})
	if got := string(c.Describe().InputSchema); got != schema {
		t.Errorf("input schema %s", got)
	}
	none := mustCommand(t, config.Command{Command: []string{"echo"}})
	if got := string(none.Describe().
		InputSchema); got != `{"type":"object","properties":{},"additionalProperties":false}` {
		t.Errorf("input schema %s", got)
	}
	// A property may be named type.
	typed := mustCommand(t, config.Command{Command: []string{"echo", "{{type}}"},
		Input: config.Object(`{"type":{"type":"string"}}`)})
	if !json.Valid(typed.Describe().InputSchema) || len(typed.in.Names) != 1 {
		t.Errorf("input schema %s", typed.Describe().InputSchema)
	}
}

// The command finds its variables, wherever it runs, also when TMPDIR is no path from /.
func TestVariablesInARelativeFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("TMPDIR", ".")
	c := mustCommand(t, config.Command{Shell: `cat "$RUNNEL_VARIABLES"`, Dir: "/"})
	result, _, _ := call(t, c, `{}`)
	if got := contentText(t, result.Content[0]); result.IsError || got != "{}" {
		t.Errorf("got %q", got)
	}
}

// A command runs without a directory for temporary files, too. Its variables are then in the user's cache, or
// it has none, and not those of the command that runnel itself runs in.
func TestVariablesWithoutTMPDIR(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", t.TempDir())
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", "/does/not/exist")
	t.Setenv("RUNNEL_VARIABLES", "/outer/variables.json")
	c := mustCommand(t, config.Command{Shell: `if [ "$RUNNEL_VARIABLES" ]; then cat "$RUNNEL_VARIABLES"; else printf none; fi`, Dir: "/"})
	expect := func(want string) {
		t.Helper()
		for range 2 {
			result, _, _ := call(t, c, `{}`)
			if got := contentText(t, result.Content[0]); result.IsError || got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	}
	expect("none")
	if err := os.MkdirAll(cache, 0o700); err != nil {
		t.Fatal(err)
	}
	expect("{}")
	if left, err := os.ReadDir(cache); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A command that puts a pipe where its variables stood holds nobody up.
func TestVariablesThatAreNoFile(t *testing.T) {
	c := mustCommand(t, config.Command{Shell: `rm "$RUNNEL_VARIABLES"; mkfifo "$RUNNEL_VARIABLES"; echo made`})
	result, _, _ := call(t, c, `{}`)
	if got := contentText(t, result.Content[0]); !result.IsError ||
		!strings.HasPrefix(got, "made\nthe variables that the command wrote are not taken: ") ||
		!strings.HasSuffix(got, " is no longer a file") {
		t.Errorf("got %q", got)
	}
}

// The line that describes a tool shows its placeholders as they are written.
func TestCommandLineOfADescription(t *testing.T) {
	words := []string{"grep", "-rn", "{{pattern}}", "--dir={{dir}}/sub", "a b", "it's", "$HOME", ""}
	if got, want := commandLine(&config.Command{Command: words}),
		`grep -rn {{pattern}} --dir={{dir}}/sub 'a b' 'it'\''s' '$HOME' ''`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
