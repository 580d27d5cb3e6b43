package notify

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tools/config"
	"runnel/tools/secrets"
)

// programs is a PATH with two programs in dir, notify-send and told, that note their arguments and variables
// in NAME.noted.
func programs(t *testing.T) (path, dir string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the program is a script for sh")
	}
	dir = t.TempDir()
	script := "#!/bin/sh\n{ printf '%s\\0' \"$@\"; env -0 | grep -z ^RUNNEL_TASK_ | sort -z; } >> \"$0.noted\"\n"
	for _, name := range []string{"notify-send", "told"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir + ":/usr/bin:/bin", dir
}

// notices are those of a config.
func notices(t *testing.T, path, yaml string, hidden *secrets.Set, log io.Writer) *Notices {
	t.Helper()
	conf, err := config.Parse("runnel.yaml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	rules, err := FromConfig(conf, []string{"PATH=" + path, "TOKEN=word"})
	if err != nil {
		t.Fatal(err)
	}
	current := &secrets.Current{}
	current.Replace(hidden)
	n := New(current, zerolog.New(zerolog.SyncWriter(log)))
	n.Replace(rules)
	t.Cleanup(n.Close)
	return n
}

func ended(tool string, status mcp.TaskStatus, took time.Duration, message string,
	content ...string) *tasks.Task {
	t := &tasks.Task{ID: "id", Tool: tool, Status: status, StatusMessage: message, CreatedAt: time.Unix(0, 0),
		UpdatedAt: time.Unix(0, 0).Add(took), Outcome: &tasks.Outcome{Result: &mcp.CallToolResult{}}}
	for _, text := range content {
		t.Outcome.Result.Content = append(t.Outcome.Result.Content, mcp.Text(text))
	}
	return t
}

// hostile is a line that shells, AppleScript, PowerShell, desktops and terminals would do something with.
const hostile = "--help $(touch x) `id` \"; do shell script \\\"x\\\" '<a href=\"x\">&lt; \\033 \x1b[31mred\x1b[0m \u202eevil\u2028\x00 \x07 letmein-secret"

// All three ways tell the same, in one line without control characters and secrets; nothing of it is a flag,
// a script or markup.
func TestWays(t *testing.T) {
	path, dir := programs(t)
	var got []byte
	var header http.Header
	var at string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got, _ = io.ReadAll(r.Body)
		header, at = r.Header, r.URL.String()
	}))
	defer server.Close()
	hidden, err := secrets.New([]string{"letmein-secret"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := notices(t, path, "notify: {desktop: true, command: [told, \"{{a}}\", \"$HOME\"], url: \""+server.URL+
		"/hook/${TOKEN}?key=${TOKEN}\", headers: {Authorization: \"Bearer ${TOKEN}\"}}", hidden, t.Output())
	n.Tell(ended("--version", mcp.TaskFailed, 70200*time.Millisecond, "exit code 2\nfirst\n"+hostile+"\n"))
	n.Close()

	const message = `exit code 2: --help $(touch x) ` + "`id`" +
		` "; do shell script \"x\" '<a href="x">&lt; \033 red  evil     ***`
	var hook map[string]any
	if err := json.Unmarshal(got, &hook); err != nil {
		t.Fatal(err)
	}
	host, _ := os.Hostname()
	for name, want := range map[string]any{"task": "id", "tool": "--version", "status": "failed",
		"seconds": 70.2, "message": message, "host": host} {
		if hook[name] != want {
			t.Errorf("%s: %q, want %q", name, hook[name], want)
		}
	}
	if header.Get("Authorization") != "Bearer word" || header.Get("Content-Type") != "application/json" {
		t.Errorf("%v", header)
	}
	if at != "/hook/word?key=word" {
		t.Error(at)
	}
	variables := "RUNNEL_TASK_ID=id\x00RUNNEL_TASK_MESSAGE=" + message +
		"\x00RUNNEL_TASK_SECONDS=70.2\x00RUNNEL_TASK_STATUS=failed\x00RUNNEL_TASK_TOOL=--version\x00"
	shown := strings.NewReplacer(`\`, `\\`, "&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(message)
	for name, want := range map[string]string{
		"notify-send": "--app-name=runnel\x00--\x00runnel: --version failed after 70.2 s\x00" + shown +
			"\x00" + variables,
		"told": "{{a}}\x00$HOME\x00" + variables,
	} {
		if got, _ := os.ReadFile(filepath.Join(dir, name+".noted")); string(got) != want &&
			(runtime.GOOS == "linux" || name == "told") {
			t.Errorf("%s: %q\nwant %q", name, got, want)
		}
	}
}

// A tool's own notify counts in the place of the one at the top, and tells what took long enough, of the ends
// that it names.
func TestRules(t *testing.T) {
	n := notices(t, "", "notify: {url: http://all, after: 1m}\ntools:\n  own: {command: [x], notify: {url: http://own, after: 0, on: [failed]}}\n  quiet: {command: [x], notify: never}\n  desk: {command: [x], notify: 5s}\n", nil, t.Output())
	for _, c := range []struct {
		tool   string
		status mcp.TaskStatus
		took   time.Duration
		told   bool
	}{
		{"any", mcp.TaskCompleted, time.Minute, true},
		{"any", mcp.TaskCancelled, time.Minute, true},
		{"any", mcp.TaskCompleted, 59 * time.Second, false},
		{"own", mcp.TaskFailed, 0, true},
		{"own", mcp.TaskCompleted, time.Hour, false},
		{"quiet", mcp.TaskFailed, time.Hour, false},
		{"desk", mcp.TaskFailed, 5 * time.Second, true},
	} {
		if rule := n.Rules().of(c.tool); rule.wants(ended(c.tool, c.status, c.took, "")) != c.told {
			t.Errorf("%s %s after %v", c.tool, c.status, c.took)
		}
	}
	if desk := n.Rules().of("desk"); len(desk.ways) != 1 || desk.ways[0].name != "desktop" {
		t.Errorf("%v", desk.ways)
	}
}

// on: [match] reports what a task that goes on has found in its output, however short it is.
func TestMatchIsReported(t *testing.T) {
	path, dir := programs(t)
	n := notices(t, path, "notify: {command: [told], on: [match, failed]}\ntools: {quiet: {command: [x], notify: {command: [told]}}}\n", nil, t.Output())
	working := ended("dev", mcp.TaskWorking, 1200*time.Millisecond, "")
	working.Outcome = nil
	working.Matches = tasks.Matches{}.IsReady(time.Second, "listening on http://localhost:1/")
	n.Tell(working)
	working = new(*working)
	working.Tool = "quiet"
	n.Tell(working)
	n.Close()
	const want = "\x00RUNNEL_TASK_ID=id\x00RUNNEL_TASK_MESSAGE=ready after 1 s: listening on http://localhost:1/\x00RUNNEL_TASK_SECONDS=1.2\x00RUNNEL_TASK_STATUS=match\x00RUNNEL_TASK_TOOL=dev\x00"
	if got, _ := os.ReadFile(filepath.Join(dir, "told.noted")); string(got) != want {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// A runnel that the command of a notice starts tells nobody.
func TestCircle(t *testing.T) {
	path, dir := programs(t)
	script := "#!/bin/sh\nenv > \"$0.vars\"\n"
	if err := os.WriteFile(filepath.Join(dir, "told"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	const yaml = "notify: {after: 0, command: [told]}"
	n := notices(t, path, yaml, nil, t.Output())
	n.Tell(ended("a", mcp.TaskCompleted, 0, ""))
	n.Close()
	vars, err := os.ReadFile(filepath.Join(dir, "told.vars"))
	if err != nil {
		t.Fatal(err)
	}
	conf, err := config.Parse("runnel.yaml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	if rules, err := FromConfig(conf, strings.Split(strings.TrimSpace(string(vars)), "\n")); rules != nil ||
		err != nil {
		t.Errorf("%+v, %v", rules, err)
	}
}

// A rule that cannot work is reported with its place.
func TestWrongRules(t *testing.T) {
	for yaml, want := range map[string]string{
		"notify: {after: -3s}":            "runnel.yaml:1:17: notify.after: -3s is negative",
		"notify: {on: [failed, done]}":    `notify.on[1]: "done" is unknown`,
		"notify: {on: []}":                "notify.on: is empty",
		"notify: {desktop: false}":        "notify.desktop: false leaves no way to notify",
		"notify: {command: ['']}":         "notify.command[0]: is empty",
		"notify: {headers: {A: b}}":       "notify.headers: are sent to a url, and there is none",
		"notify:\n  url: 'ftp://me:pw@x'": "notify: the URL must begin with https",
		"tools:\n  a:\n    command: [x]\n    notify:\n      url: 'http://me:password%wx@x'": "runnel.yaml:4:5: tools.a.notify: the URL cannot be read",
	} {
		conf, err := config.Parse("runnel.yaml", []byte(yaml))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = FromConfig(conf, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", yaml, err)
		} else if strings.Contains(err.Error(), "pw") || strings.Contains(err.Error(), "password") {
			t.Errorf("a password is shown: %s", err)
		}
	}
}

func TestMessage(t *testing.T) {
	for want, task := range map[string]*tasks.Task{
		"ok runnel 3 s": ended("", mcp.TaskCompleted, 0, "",
			"ok first\nok runnel 3 s\n\n", "\n"),
		"":                        ended("", mcp.TaskCompleted, 0, ""),
		"cancelled by the client": ended("", mcp.TaskCancelled, 0, "cancelled by the client", "output"),
		"exit code 1: FAIL last": ended("", mcp.TaskFailed, 0,
			"exit code 1\nFAIL first\nFAIL last", "output"),
		"drawn last":                 ended("", mcp.TaskCompleted, 0, "", "drawn first\rdrawn last"),
		"no such file or directory?": ended("", mcp.TaskFailed, 0, "", "no such file or directory?"),
	} {
		if got := message(task); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := newNotice(ended("", mcp.TaskFailed, 0, strings.Repeat("é", 1000)), nil).
		Message; len(got) > maxMessage+len("…") || !strings.HasSuffix(got, "é…") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}

// A server that hangs delays no other way, nor Close for longer than its grace; those that wait for it are
// bounded, and lost in the end.
func TestHangingServer(t *testing.T) {
	path, dir := programs(t)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else its end is not noticed
		<-r.Context().Done()
	}))
	defer server.Close()
	var log lockedBuffer
	n := notices(t, path, "notify: {command: [told], after: 0, url: '"+
		strings.Replace(server.URL, "://", "://me:password@", 1)+"/path-secret?q=token'}", nil, &log)
	for range maxWaiting + 10 {
		n.Tell(ended("a", mcp.TaskCompleted, 0, ""))
	}
	began := time.Now()
	n.Close()
	if took := time.Since(began); took > time.Minute { // the server never answers
		t.Errorf("Close took %v", took)
	}
	if text, _ := os.ReadFile(filepath.Join(dir, "told.noted")); !strings.Contains(string(text),
		"RUNNEL_TASK_ID=id") {
		t.Error("the command did not run beside it")
	}
	said := log.String()
	for _, want := range []string{`"notify":"url","lost":`, `"notify":"url","message":"a notice is lost`,
		`: runnel ends","taskId":"id","notify":"url"`} {
		if strings.Count(said, want) != 1 {
			t.Errorf("%q is not in the log once:\n%s", want, said)
		}
	}
	for _, secret := range []string{"password", "path-secret", "token"} {
		if strings.Contains(said, secret) {
			t.Errorf("%s is in the log:\n%s", secret, said)
		}
	}
	n.Tell(ended("a", mcp.TaskCompleted, 0, "")) // it is closed: lost, and nothing is left that goes on
}

// A server that is down for a moment is asked again; one that refuses is not; a redirect is not followed.
// What went wrong is logged once.
func TestAnswers(t *testing.T) {
	before := pauses
	pauses = []time.Duration{time.Millisecond, time.Millisecond}
	defer func() { pauses = before }()
	for _, c := range []struct {
		codes []int
		calls int
		log   string
	}{
		{[]int{500, 429, 204}, 3, ""},
		{[]int{503, 503, 503, 200}, 3, "answers 503 Service Unavailable"},
		{[]int{403}, 1, "answers 403 Forbidden"},
		{[]int{302}, 1, "redirects (302), which is not followed"},
	} {
		calls := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(c.codes[min(calls, len(c.codes)-1)])
			calls++
		}))
		var log lockedBuffer
		n := notices(t, "", "notify: {after: 0, url: "+server.URL+"}", nil, &log)
		n.Tell(ended("a", mcp.TaskCompleted, 0, ""))
		n.Close()
		server.Close()
		if calls != c.calls || !strings.Contains(log.String(), c.log) || c.log == "" && log.String() != "" {
			t.Errorf("%v: %d calls, log: %s", c.codes, calls, log.String())
		}
	}
}

// A way that fails is logged once until it works again, with what to do.
func TestFailureIsLoggedOnce(t *testing.T) {
	var log lockedBuffer
	n := notices(t, "/nonexistent", "notify: {after: 0, command: [told]}", nil, &log)
	for range 3 {
		n.Tell(ended("a", mcp.TaskCompleted, 0, ""))
	}
	n.Close()
	if said := log.String(); strings.Count(said, "\n") != 1 ||
		!strings.Contains(said, "cannot start told: not found in PATH=/nonexistent") {
		t.Errorf("%s", said)
	}
	if err := n.Rules().Check(); err == nil || !strings.Contains(err.Error(), "told: not found") {
		t.Errorf("%v", err)
	}
	n = notices(t, "", "notify: {url: 'https://${HOST}/${TOKEN}'}", nil, t.Output())
	if err := n.Rules().Check(); err == nil ||
		err.Error() != "the URL needs the variable HOST, which is not set" {
		t.Errorf("%v", err)
	}
}

// A program is started in the same way on each system: words from strangers are arguments of their own.
func TestDesktops(t *testing.T) {
	n := &notice{Tool: hostile, Status: "failed", Message: hostile}
	for _, system := range []string{"linux", "darwin", "windows", "freebsd"} {
		argv, more := desktopFor(system)(n)
		for i, word := range argv {
			if strings.Contains(word, "letmein") &&
				(i < 3 || word != n.title() && word != hostile && word != unmarked.Replace(hostile)) {
				t.Errorf("%s: %q", system, word)
			}
		}
		if system == "windows" && (len(argv) != 5 || more["RUNNEL_NOTICE_TITLE"] != n.title()) {
			t.Errorf("%q %q", argv, more)
		}
	}
}

// notify-send finds the desktop also where the host gives runnel no variable that says where it is.
func TestBus(t *testing.T) {
	before := runtimeDirs
	runtimeDirs = t.TempDir()
	defer func() { runtimeDirs = before }()
	few := []string{"HOME=/home/me"}
	path, _ := programs(t)
	n := notices(t, path, "notify: {desktop: true}", nil, t.Output())
	if err := n.Rules().Check(); runtime.GOOS == "linux" &&
		(err == nil || !strings.Contains(err.Error(), "no desktop can be reached")) {
		t.Errorf("%v", err)
	}
	if got := withBus(few); !slices.Equal(got, few) {
		t.Errorf("nobody is logged in: %q", got)
	}
	socket := filepath.Join(runtimeDirs, strconv.Itoa(os.Getuid()), "bus")
	if err := os.MkdirAll(socket, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := withBus(few); !slices.Equal(got,
		[]string{"HOME=/home/me", "DBUS_SESSION_BUS_ADDRESS=unix:path=" + socket}) {
		t.Errorf("%q", got)
	}
	for _, set := range []string{"DBUS_SESSION_BUS_ADDRESS=tcp:", "XDG_RUNTIME_DIR=/tmp"} {
		if got := withBus([]string{set}); len(got) != 1 {
			t.Errorf("%q", got)
		}
	}
}

// A supervisor is sent the rules as JSON.
func TestRulesTravel(t *testing.T) {
	n := notices(t, "", "notify: 5s\ntools: {a: {command: [x], notify: {url: http://x, after: 0}}, b: {command: [x], notify: never}}", nil, t.Output())
	text, err := json.Marshal(n.Rules())
	if err != nil {
		t.Fatal(err)
	}
	var there *Rules
	if err := json.Unmarshal(text, &there); err != nil {
		t.Fatal(err)
	}
	if err := there.Make(nil, func(_ string,
		err error) error {
		return errors.Join(err, errors.New("it has no place"))
	}); err != nil {
		t.Fatal(err)
	}
	if there.of("a").ways[0].name != "url" || there.of("b") != nil || there.of("c").after != 5*time.Second {
		t.Errorf("%s", text)
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
