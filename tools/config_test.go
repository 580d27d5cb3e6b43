package tools

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/rs/zerolog"
)

var update = flag.Bool("update", false, "write what is said now into the files of testdata/config/wrong")

const configFiles = "../testdata/config"

// configFile names the files of a directory.
func configFile(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(configFiles, dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	return files
}

// mistakes are all errors that a config gives, in the order in which a user sees them.
func mistakes(c *Config, err error) []error {
	if err == nil {
		_, err = c.Commands(nil)
		_, wrong := c.Servers(nil, "", zerolog.Nop())
		err = errors.Join(c.Check(), err, wrong)
	}
	return flatten(err)
}

func flatten(err error) (list []error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			list = append(list, flatten(e)...)
		}
		return list
	}
	if err != nil {
		list = append(list, err)
	}
	return list
}

// Each file in testdata/config/wrong ends with what must be said about it, a line for each mistake:
// "# want: LINE:COLUMN: what is wrong (what is allowed)".
func TestWrongConfigs(t *testing.T) {
	for _, file := range configFile(t, "wrong") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			yaml, wants, _ := strings.Cut(string(text), "# want: ")
			var got strings.Builder
			for _, err := range mistakes(ParseConfig("F", []byte(yaml))) {
				var at *FileError
				if !errors.As(err, &at) {
					t.Errorf("has no place: %v", err)
					continue
				}
				got.WriteString("# want: " + strings.TrimPrefix(at.Summary(), "F:") + "\n")
			}
			if *update {
				if err := os.WriteFile(file, []byte(yaml+got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want := "# want: " + wants; got.String() != want {
				t.Errorf("got:\n%swant:\n%s", &got, want)
			}
		})
	}
}

func TestErrorShowsTheLine(t *testing.T) {
	_, err := ParseConfig("dir/runnel.yaml", []byte("tools:\n  test:\n    timout: 30m\n"))
	want := `dir/runnel.yaml:3:5: tools.test: unknown key "timout" (did you mean timeout?)
    3 |     timout: 30m
      |     ^`
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
}

func TestGoodConfigs(t *testing.T) {
	for _, file := range configFile(t, "good") {
		c, err := LoadConfig(file)
		for _, err := range mistakes(c, err) {
			t.Error(err)
		}
	}
}

func TestConfigOverridesDefaults(t *testing.T) {
	c, err := LoadConfig(filepath.Join(configFiles, "good", "full.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := DefaultConfig()
	want.Server = ServerConfig{Name: "build", Instructions: "Run the project's tests with test.", Owner: "ci"}
	want.Limits = LimitsConfig{MaxLine: 1 << 20, MaxInFlight: 16, Drain: -1}
	want.Partials = PartialsConfig{Pace: 0, MaxBytes: 16 << 10, MaxPending: 2 << 20}
	want.Tasks = TasksConfig{TTL: Duration(30 * time.Minute), MaxTTL: Duration(2 * time.Hour), PollInterval: Duration(500 * time.Millisecond), MaxLive: 8,
		MaxStartsPerMinute: 60, MaxRequestsPerSecond: 100,
		SyncWait: Duration(20 * time.Second), ImmediateWait: Duration(50 * time.Millisecond), Heartbeat: Duration(5 * time.Second), FailedExit: "completed", MaxResult: 16 << 10}
	want.State = StateConfig{Dir: "~/tasks", MaxState: 1 << 30}
	want.FallbackTools, want.Compat = "always", CompatConfig{RequiredFallthrough: true}
	for _, section := range []string{"server", "limits", "partials", "tasks", "state", "fallbackTools", "compat"} {
		if got, want := c.Text(section), want.Text(section); got != want {
			t.Errorf("%s: %s, want %s", section, got, want)
		}
	}
	test := c.Tools["test"]
	// Text stays what was written: 1.10 is not 1.1.
	if want := map[string]string{"CGO_ENABLED": "0", "GOFLAGS": "-count=1", "GO": "1.10"}; !reflect.DeepEqual(test.Env, want) {
		t.Errorf("env %q, want %q", test.Env, want)
	}
	if want := `{"packages":{"type":"array","items":{"type":"string"},"default":["./..."]},"run":{"type":"string","description":"only tests that match"}}`; string(test.Input) != want {
		t.Errorf("input %s, want %s", test.Input, want)
	}
	if a := test.Annotations; a == nil || a.ReadOnlyHint == nil || !*a.ReadOnlyHint || a.DestructiveHint == nil || *a.DestructiveHint {
		t.Errorf("annotations %+v", a)
	}
	if test.Grace == nil || *test.Grace != Duration(time.Second) {
		t.Errorf("grace %v", test.Grace)
	}
	commands, err := c.Commands(nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, command := range commands {
		names = append(names, command.name)
		if want := filepath.Join(configFiles, "good", "sub", "dir"); command.name == "test" && !strings.HasSuffix(command.dir, strings.TrimPrefix(want, "..")) {
			t.Errorf("dir %q, want %q: relative to the file", command.dir, want)
		}
	}
	if want := []string{"deploy", "test"}; !slices.Equal(names, want) {
		t.Errorf("tools %q, want %q", names, want)
	}
}

func TestAliasesAndMerges(t *testing.T) {
	c, err := LoadConfig(filepath.Join(configFiles, "good", "aliases.yaml"))
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

// What a flag or a variable sets wins, and is what an error names.
func TestSetWinsOverTheFile(t *testing.T) {
	c, err := ParseConfig("F", []byte("tasks: {maxLive: 5}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if from := c.Origin("tasks.maxLive"); from != "F:1:9" {
		t.Errorf("origin %q", from)
	}
	if err := c.Set("tasks.maxLive", "many", "--max-tasks"); err == nil {
		t.Error("no error for a wrong value")
	}
	if err := c.Set("tasks.maxLive", "0", "--max-tasks"); err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err == nil || err.Error() != "--max-tasks: 0 is out of range (allowed: 1 or more)" {
		t.Errorf("got %v", err)
	}
}

// What is found wrong later has its place, too, where \r\n is no end of a line but a character of UTF-16.
func TestPlacesInUTF16(t *testing.T) {
	text := []byte("\xfe\xff")
	for _, unit := range utf16.Encode([]rune("# \u0d0a\ntasks: {ttl: 1ms}\n")) {
		text = binary.BigEndian.AppendUint16(text, unit)
	}
	c, err := ParseConfig("F", text)
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
		c, err := ParseConfig("F", []byte("partials: {maxBytes: "+size+"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Check(); err == nil || strings.Contains(err.Error(), "maxPending") || !strings.Contains(err.Error(), "partials.maxBytes: "+size+" is out of range") {
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
		if file, err := FindConfig(ConfigPlaces(getenv)); file != want || err != nil {
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

// Whatever the file holds, it is read or gets errors with a place; what is read can be checked.
func FuzzConfig(f *testing.F) {
	for _, dir := range []string{"good", "wrong"} {
		files, _ := filepath.Glob(filepath.Join(configFiles, dir, "*.yaml"))
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ParseConfig("F", text)
		for _, err := range mistakes(c, err) {
			var at *FileError
			if !errors.As(err, &at) || at.Line < 1 || at.Column < 1 || at.Problem == "" {
				t.Errorf("no place: %v", err)
			}
		}
		if err == nil {
			for name, tool := range c.Tools {
				if len(tool.Input) > 0 && !json.Valid(tool.Input) {
					t.Errorf("%s: input is no JSON: %s", name, tool.Input)
				}
			}
		}
	})
}

func TestNearest(t *testing.T) {
	names := []string{"timeout", "idleTimeout", "task", "title", "maxOutput", "maxResult"}
	for _, c := range []struct{ name, want string }{
		{"timout", "timeout"}, {"Timeout", "timeout"}, {"tiemout", "timeout"}, {"tasks", "task"},
		{"max", "maxOutput maxResult"}, {"image", ""}, {"maxoutput", "maxOutput"},
	} {
		if got := fmt.Sprint(Nearest(c.name, names)); got != "["+c.want+"]" {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
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
		{"", "", map[string]string{"HOME": "/home/me", "XDG_STATE_HOME": "relative"}, "/home/me/.local/state/runnel"},
		{"", "", nil, ""},
		{"", "~/tasks", home, "/home/me/tasks"},
		{"", "~", home, "/home/me"},
		{"", "~/tasks", nil, ""},
		{"", "/abs/dir", nil, "/abs/dir"},
		{"/etc/runnel.yaml", "tasks", nil, "/etc/tasks"},
	} {
		config := DefaultConfig()
		config.file, config.State.Dir = c.file, c.dir
		got, err := config.StateDir(func(name string) string { return c.env[name] })
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
	if _, err := DefaultConfig().StateDir(func(name string) string { return map[string]string{"HOME": "relative"}[name] }); err == nil || err.Error() != "neither XDG_STATE_HOME nor HOME is set to an absolute path" {
		t.Errorf("a relative home: %v", err)
	}
	// A flag names a directory from where the user is, whatever file is read.
	config := DefaultConfig()
	config.file = "/etc/runnel.yaml"
	if err := config.Set("state.dir", "tasks", "--state"); err != nil {
		t.Fatal(err)
	}
	here, _ := filepath.Abs("tasks")
	if got, err := config.StateDir(noEnvironment); err != nil || got != here {
		t.Errorf("by flag: %q, %v; want %q", got, err, here)
	}
}

func noEnvironment(string) string { return "" }

// What a YAML library may take gigabytes for is refused before it is parsed, with a place; what people write is not.
func TestConfigIsBounded(t *testing.T) {
	for text, want := range map[string]string{
		"a: " + strings.Repeat("[", 100_000):         "F:1:1004: the file is nested too deep",
		"a:\n  " + strings.Repeat("{b: ", 100_000):   "nested too deep",
		"\n" + strings.Repeat("- ", 100_000) + "a":   "F:2:2001: the file is nested too deep",
		strings.Repeat("# comment\n", maxFile/10+10): "F:1:1: the file is too large (allowed: 1MiB at most)",
	} {
		if _, err := ParseConfig("F", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %s", text, err, want)
		}
	}
	// Of what has no end no more is read than that takes.
	if _, err := LoadConfig("/dev/zero"); err == nil || !strings.Contains(err.Error(), "the file is too large") {
		t.Errorf("/dev/zero: %v", err)
	}
	fine := "tools:\n  a:\n    shell: |\n      " + strings.Repeat("-", 2000) + strings.Repeat("\n      [[ -n $a ]] && b=( -x - - - )", 5000)
	if _, err := ParseConfig("F", []byte(fine)); err != nil {
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
		_, err := LoadConfig(file)
		if err == nil {
			t.Fatalf("%s: no mistake was found", name)
		}
		if told := err.Error(); len(told) > (maxMistakes+1)<<10 || !strings.Contains(told, "^") {
			t.Errorf("%s: %d bytes: %.500s", name, len(told), told)
		}
	}
}

// JSON is YAML but for the pairs of surrogates that many programs write.
func TestConfigReadsSurrogates(t *testing.T) {
	c, err := ParseConfig("F", []byte(`{"server":{"instructions":"\ud83d\ude00 \\ud83d\\ude00 \u00e4"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := "\U0001F600 \\ud83d\\ude00 ä"; c.Server.Instructions != want {
		t.Errorf("%q, want %q", c.Server.Instructions, want)
	}
}

// Of a long line what is around the mistake is shown, with the mark below it, whatever letters stand before.
func TestLongLineIsCutAroundTheMistake(t *testing.T) {
	for _, letter := range []string{"a", "ä", "😀"} {
		file := filepath.Join(t.TempDir(), "runnel.yaml")
		text := `server: {instructions: "` + strings.Repeat(letter, 500) + `", nme: x, owner: "` + strings.Repeat(letter, 500) + `"}` + "\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := LoadConfig(file)
		if err == nil {
			t.Fatal("no mistake was found")
		}
		lines := strings.Split(err.Error(), "\n")
		if len(lines) != 3 {
			t.Fatalf("%d lines: %s", len(lines), err)
		}
		source, mark := []rune(lines[1]), strings.Index(lines[2], "^")
		if len(source) > maxSource+20 || mark < 0 || !strings.HasPrefix(string(source[mark:]), "nme: x") {
			t.Errorf("%s\n%s", lines[1], lines[2])
		}
	}
}
