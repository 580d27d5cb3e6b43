package config

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"runnel/tools/config/strict"
)

const configFiles = "../../testdata/config"

// configFile names the files of a directory.
func configFile(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(configFiles, dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	return files
}

func TestErrorShowsTheLine(t *testing.T) {
	_, err := Parse("dir/runnel.yaml", []byte("tools:\n  test:\n    timout: 30m\n"))
	want := `dir/runnel.yaml:3:5: tools.test: unknown key "timout" (did you mean timeout?)
    3 |     timout: 30m
      |     ^`
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
}

// A key that other programs have for the same thing leads to runnel's.
func TestSynonyms(t *testing.T) {
	keys := map[string]string{"cwd": "dir", "environment": "env", "run": "shell", "inputSchema": "input"}
	for key, want := range keys {
		_, err := Parse("F", []byte("tools: {t: {command: [true], "+key+": x}}"))
		if err == nil || !strings.Contains(err.Error(), `unknown key "`+key+`" (did you mean `+want+`?)`) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// A value that no command could take is reported with its place.
func TestNUL(t *testing.T) {
	for text, want := range map[string]string{
		`{command: [echo, "a\0b"]}`:       "F:1:29: tools.t.command[1]: holds a NUL character",
		`{shell: "echo a\0b"}`:            "tools.t.shell: holds a NUL",
		`{shell: "echo", env: {A: "\0"}}`: "tools.t.env.A: holds a NUL",
	} {
		if _, err := Parse("F", []byte("tools: {t: "+text+"}")); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestConfigOverridesDefaults(t *testing.T) {
	c, err := load(filepath.Join(configFiles, "good", "full.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Server = Server{Name: "build", Instructions: "Run the project's tests with test.", Owner: "ci"}
	want.Limits = Limits{MaxLine: 1 << 20, MaxInFlight: 16, Drain: -1}
	want.Partials = Partials{Pace: 0, MaxBytes: 16 << 10, MaxPending: 2 << 20}
	want.Tasks = Tasks{TTL: Duration(30 * time.Minute), MaxTTL: Duration(2 * time.Hour),
		PollInterval: Duration(500 * time.Millisecond), MaxLive: 8,
		MaxStartsPerMinute: 60, MaxRequestsPerSecond: 100,
		SyncWait: Duration(20 * time.Second), ImmediateWait: Duration(50 * time.Millisecond),
		Heartbeat: Duration(5 * time.Second), FailedExit: "completed", MaxResult: 16 << 10}
	want.State = State{Dir: "~/tasks", MaxState: 1 << 30}
	want.FallbackTools, want.Compat = "always", Compat{RequiredFallthrough: true}
	for _, section := range []string{"server", "limits", "partials", "tasks", "state", "fallbackTools",
		"compat"} {
		if got, want := c.Text(section), want.Text(section); got != want {
			t.Errorf("%s: %s, want %s", section, got, want)
		}
	}
	test := c.Tools["test"]
	// Text stays what was written: 1.10 is not 1.1.
	if want := map[string]string{"CGO_ENABLED": "0", "GOFLAGS": "-count=1",
		"GO": "1.10"}; !reflect.DeepEqual(test.Env, want) {
		t.Errorf("env %q, want %q", test.Env, want)
	}
	if want := `{"packages":{"type":"array","items":{"type":"string"},"default":["./..."]},"run":{"type":"string","description":"only tests that match"}}`; string(test.Input) != want {
		t.Errorf("input %s, want %s", test.Input, want)
	}
	if a := test.Annotations; a == nil || a.ReadOnlyHint == nil || !*a.ReadOnlyHint ||
		a.DestructiveHint == nil || *a.DestructiveHint {
		t.Errorf("annotations %+v", a)
	}
	if test.Grace == nil || *test.Grace != Duration(time.Second) {
		t.Errorf("grace %v", test.Grace)
	}
}

func TestAliasesAndMerges(t *testing.T) {
	c, err := load(filepath.Join(configFiles, "good", "aliases.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	build := c.Tools["build"]
	if build.Timeout != Duration(time.Minute) || build.Command[1] != "build" {
		t.Errorf("build is %+v", build)
	}
	if !strings.Contains(string(build.Input), `"packages":{"type":"array","items":{"type":"string"}}`) {
		t.Errorf("input %s", build.Input)
	}
}

// A flag or a variable wins over the file, and errors name it.
func TestSetWinsOverTheFile(t *testing.T) {
	c, err := Parse("F", []byte("tasks: {maxLive: 5}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if from := c.Origin("tasks.maxLive"); from != "F:1:9" {
		t.Errorf("origin %q", from)
	}
	if err := c.Set("tasks.maxLive", "--max-tasks", "many"); err == nil {
		t.Error("no error for a wrong value")
	}
	if err := c.Set("tasks.maxLive", "--max-tasks", "0"); err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err == nil || err.Error() != "--max-tasks: 0 is out of range (allowed: 1 or more)" {
		t.Errorf("got %v", err)
	}
}

// A mistake that is found later has its place, too, also where \r\n is not the end of a line but a character
// of UTF-16.
func TestPlacesInUTF16(t *testing.T) {
	text := []byte("\xfe\xff")
	for _, unit := range utf16.Encode([]rune("# \u0d0a\ntasks: {ttl: 1ms}\n")) {
		text = binary.BigEndian.AppendUint16(text, unit)
	}
	c, err := Parse("F", text)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err == nil || !strings.HasPrefix(err.Error(), "F:2:14: tasks.ttl: ") {
		t.Errorf("got %v", err)
	}
}

// One mistake is one error.
func TestBoundsOfOneAnother(t *testing.T) {
	for _, size := range []string{"2MiB", "10GiB"} {
		c, err := Parse("F", []byte("partials: {maxBytes: "+size+"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Check(); err == nil || strings.Contains(err.Error(), "maxPending") ||
			!strings.Contains(err.Error(), "partials.maxBytes: "+size+" is out of range") {
			t.Errorf("got %v", err)
		}
	}
}

func TestFindConfig(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	env := map[string]string{"HOME": dir + "/home"}
	getenv := func(name string) string { return env[name] }
	write := func(file string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found := func(want string) {
		t.Helper()
		if file, err := Find(Places(getenv)); file != want || err != nil {
			t.Errorf("found %q, %v; want %q", file, err, want)
		}
	}
	found("")
	write(dir + "/home/.config/runnel/runnel.yaml")
	found(dir + "/home/.config/runnel/runnel.yaml")
	env["XDG_CONFIG_HOME"] = "relative" // "must be absolute": else it does not count
	found(dir + "/home/.config/runnel/runnel.yaml")
	env["XDG_CONFIG_HOME"] = dir + "/xdg"
	found("")
	write(dir + "/xdg/runnel/runnel.yaml")
	found(dir + "/xdg/runnel/runnel.yaml")
	write("runnel.yaml")
	found("runnel.yaml")
}

func TestStateDir(t *testing.T) {
	home := map[string]string{"HOME": "/home/me"}
	xdg := map[string]string{"HOME": "/home/me", "XDG_STATE_HOME": "/state"}
	for _, c := range []struct {
		file, dir string
		env       map[string]string
		want      string // "" = an error
	}{
		{"", "", xdg, "/state/runnel"},
		{"", "", home, "/home/me/.local/state/runnel"},
		{"", "", map[string]string{"HOME": "/home/me", "XDG_STATE_HOME": "relative"},
			"/home/me/.local/state/runnel"},
		{"", "", nil, ""},
		{"", "~/tasks", home, "/home/me/tasks"},
		{"", "~", home, "/home/me"},
		{"", "~/tasks", nil, ""},
		{"", "/abs/dir", nil, "/abs/dir"},
		{"/etc/runnel.yaml", "tasks", nil, "/etc/tasks"},
	} {
		config := Default()
		config.State.Dir = c.dir
		if c.file != "" {
			config.source = strict.NewFile(c.file, nil)
		}
		got, err := config.StateDir(func(name string) string { return c.env[name] })
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
	if _, err := Default().StateDir(func(name string) string { return map[string]string{"HOME": "relative"}[name] }); err == nil || err.Error() != "neither XDG_STATE_HOME nor HOME is set to an absolute path" {
		t.Errorf("a relative home: %v", err)
	}
	// A flag names a directory from where the user is, whatever file is read.
	config := Default()
	config.source = strict.NewFile("/etc/runnel.yaml", nil)
	if err := config.Set("state.dir", "--state", "tasks"); err != nil {
		t.Fatal(err)
	}
	here, _ := filepath.Abs("tasks")
	if got, err := config.StateDir(noEnvironment); err != nil || got != here {
		t.Errorf("by flag: %q, %v; want %q", got, err, here)
	}
}

func noEnvironment(string) string { return "" }

// A file for which a YAML library may take gigabytes is refused before it is parsed, with a place; files as
// people write them are not.
func TestConfigIsBounded(t *testing.T) {
	for text, want := range map[string]string{
		"a: " + strings.Repeat("[", 100_000):         "F:1:104: exceeded max depth of 100",
		"a:\n  " + strings.Repeat("{b: ", 100_000):   "exceeded max depth of 100",
		"\n" + strings.Repeat("- ", 100_000) + "a":   "F:2:201: exceeded max depth of 100",
		strings.Repeat("# comment\n", MaxFile/10+10): "F:1:1: the file is too large (allowed: 1MiB at most)",
	} {
		if _, err := Parse("F", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %s", text, err, want)
		}
	}
	// A file without an end is read no further than that takes.
	if _, err := load("/dev/zero"); err == nil || !strings.Contains(err.Error(), "the file is too large") {
		t.Errorf("/dev/zero: %v", err)
	}
	fine := "tools:\n  a:\n    shell: |\n      " + strings.Repeat("-", 2000) +
		strings.Repeat("\n      [[ -n $a ]] && b=( -x - - - )", 5000)
	if _, err := Parse("F", []byte(fine)); err != nil {
		t.Errorf("a long script: %v", err)
	}
}

// However many mistakes a file has and wherever they stand, what is told of them can be read.
func TestManyMistakes(t *testing.T) {
	var one, deep strings.Builder
	one.WriteString("tools: {")
	for i := range 100_000 {
		fmt.Fprintf(&one, "%d: 0, ", i)
	}
	one.WriteString("}\n")
	deep.WriteString("a: &a {" + strings.Repeat("k", 1000) + ": 1, ")
	for i := range 5000 {
		fmt.Fprintf(&deep, "k%d: 1, ", i)
	}
	deep.WriteString("}\ntools: {" + strings.Repeat("<<: [*a, *a, *a, *a, *a, *a, *a, *a], ", 5000) + "}\n")
	for name, text := range map[string]string{"on one line": one.String(), "merged": deep.String()} {
		file := filepath.Join(t.TempDir(), "runnel.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := load(file)
		if err == nil {
			t.Fatalf("%s: no mistake was found", name)
		}
		if told := err.Error(); len(told) > (strict.MaxMistakes+1)<<10 || !strings.Contains(told, "^") {
			t.Errorf("%s: %d bytes: %.500s", name, len(told), told)
		}
	}
}

// A long line is shown only around the mistake, with the mark below it, whatever letters stand before.
func TestLongLineIsCutAroundTheMistake(t *testing.T) {
	for _, letter := range []string{"a", "ä", "😀"} {
		file := filepath.Join(t.TempDir(), "runnel.yaml")
		text := `server: {instructions: "` + strings.Repeat(letter, 500) + `", nme: x, owner: "` +
			strings.Repeat(letter, 500) + `"}` + "\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := load(file)
		if err == nil {
			t.Fatal("no mistake was found")
		}
		lines := strings.Split(err.Error(), "\n")
		if len(lines) != 3 {
			t.Fatalf("%d lines: %s", len(lines), err)
		}
		source, mark := []rune(lines[1]), strings.Index(lines[2], "^")
		if len(source) > 220 || mark < 0 || !strings.HasPrefix(string(source[mark:]), "nme: x") {
			t.Errorf("%s\n%s", lines[1], lines[2])
		}
	}
}

// load reads a config file.
func load(file string) (*Config, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := Read(f)
	if err != nil {
		return nil, err
	}
	return Parse(file, text)
}

func TestAddress(t *testing.T) {
	for text, want := range map[string]string{":9090": "127.0.0.1:9090", "0.0.0.0:9090": "0.0.0.0:9090",
		"[::1]:1": "[::1]:1", "9090": "", "": "", ":99999": "", ":no-such-service": ""} {
		var got Address
		if err := got.UnmarshalText([]byte(text)); string(got) != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}
