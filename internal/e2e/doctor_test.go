package e2e

import (
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"runnel/internal/cli"
)

func TestDoctor(t *testing.T) {
	t.Parallel()
	good := writeConfig(t, "tools:\n  list:\n    command: [ls, -l]\n  any:\n    shell: echo\n")
	elsewhere := writeConfig(t, `
tools:
  below: {command: [sub/run]}
  inside: {command: [./run], dir: sub}
  plain: {command: [/etc/passwd]}
  lost: {command: [ls], dir: /nonexistent}
  named: {command: ["{{it}}"], input: {it: {type: string}}}
upstreams:
  here: {command: [sub/run]}
  gone: {command: [no-such-server]}
`)
	sub := filepath.Join(filepath.Dir(elsewhere[1]), "sub")
	if err := os.MkdirAll(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(sub, "run"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	missing := writeConfig(t, "tools:\n  gone:\n    command: [no-such-program]\n  here:\n    command: [./program]\n    dir: /\n")
	wrong := filepath.Join("testdata", "config", "wrong", "documents.yaml")
	itself := "{command: [" + racedProgram(t) +
		", --selftest, --log-level, error], env: {GORACE: atexit_sleep_ms=0, RUNNEL_CONFIG: /dev/null}"
	outer := writeConfig(t, "tools: {a: {command: [ls]}}\nupstreams: {b: "+itself+"}, c: "+itself+
		", allow: [echo]}}")
	for _, c := range []struct {
		args []string
		code int
		says []string
	}{
		{nil, exitFine, []string{`ok     version: runnel`, `ok     config: /dev/null`,
			`ok     session, 2025-11-25: 2025-11-25, `, `ok     session, stateless era: 2026-07-28, `}},
		{good, exitFine, []string{`ok     config: .*runnel.yaml$`, `ok     tools: 2$`,
			`ok     tool any: /.*/sh`, `ok     tool list: /.*/ls`}},
		{outer, exitFine, []string{`ok     tools: 1 and those of 2 other servers$`,
			`ok     upstream b: runnel devel, protocol 20\d\d-\d\d-\d\d, \d+ tools, \d+ ms$`,
			`ok     upstream c: runnel devel, protocol .*, 1 tool, \d+ ms$`}},
		{missing, exitFailure, []string{`WRONG  tool gone: cannot start no-such-program: not found in PATH=`,
			`WRONG  tool here: `}},
		{elsewhere, exitFailure, []string{ // what a call would find, not what the directory of doctor has
			`ok     tool below: ` + sub + `/run$`, `ok     tool inside: ` + sub + `/run$`,
			`WRONG  upstream here: cannot start: .*`,
			`WRONG  tool plain: cannot start /etc/passwd: /etc/passwd: permission denied$`,
			`WRONG  tool lost: cannot start ls: directory /nonexistent: no such file or directory$`,
			`WRONG  upstream gone: cannot start no-such-server: not found in PATH=`}},
		{[]string{"--tool", "x=no-such-program"}, exitFailure,
			[]string{`WRONG  tool x: cannot start no-such-program: not found in PATH=`}},
		{writeConfig(t, "notify: {command: [ls], url: 'https://x', headers: {A: '${NOT_SET}'}}\ntools: {a: {command: [ls], notify: {command: [no-such-program]}}}"), exitFailure,
			[]string{`WRONG  notices: the header A needs the variable NOT_SET, which is not set\n +cannot start no-such-program: not found in PATH=`}},
		{[]string{"--config", wrong}, exitFailure,
			[]string{`WRONG  config: .*documents.yaml:4:1: `, `ok     session, 2025-11-25`}},
		{writeConfig(t, "upstreams: {u: {command: [ls], allow: [a], deny: [a]}}"), exitFailure,
			[]string{`WRONG  config: .*runnel.yaml:1:\d+: upstreams.u.deny: "a" stands in allow, too`}},
		{[]string{"--tool", "x"}, exitFailure, []string{`WRONG  tools: --tool: "x" is not a tool`}},
		{[]string{"--tool", "x", "--tool", "y=no-such-program"}, exitFailure,
			[]string{`WRONG  tool y: cannot start no-such-program: `,
				`WRONG  tools: --tool: "x" is not a tool`}},
	} {
		got := runClient(t, "", append([]string{"doctor"}, c.args...)...)
		if got.code != c.code || got.stderr != "" {
			t.Errorf("%q: exit code %d, stderr %q", c.args, got.code, got.stderr)
		}
		for _, want := range c.says {
			if !regexp.MustCompile("(?m)^" + want).MatchString(got.stdout) {
				t.Errorf("%q does not say %q:\n%s", c.args, want, got.stdout)
			}
		}
	}
}

// A disk that is full is told: a file can be made there, but holds nothing.
func TestDoctorOfAFullDisk(t *testing.T) {
	const script = `mount -t tmpfs -o size=64k none "$0" && { mkdir "$0/state"; : >"$0/state/runnel.db"; dd if=/dev/zero of="$0/fill" 2>/dev/null; "$@"; code=$?; umount "$0"; exit $code; }`
	dir := t.TempDir()
	if out, err := exec.Command("unshare", "-m", "sh", "-c", script, dir, "true").
		CombinedOutput(); err != nil {
		t.Skipf("no disk can be mounted here: %v %s", err, out)
	}
	cmd := exec.Command("unshare", "-m", "sh", "-c", script, dir, builtProgram(t), "doctor", "--config",
		"/dev/null", "--state", dir+"/state")
	cmd.Env = append(environ(t), "TMPDIR="+dir)
	out, err := cmd.CombinedOutput()
	for _, want := range []string{"WRONG  state: " + dir + "/state cannot be written: ",
		"WRONG  temporary files: .*; TMPDIR names another directory"} {
		if err == nil || !regexp.MustCompile("(?m)^"+want).Match(out) {
			t.Errorf("%v: it does not say %q:\n%s", err, want, out)
		}
	}
}

// Where there is no /proc, as in some chroots, no command can be started: what to do about it is told.
func TestWithoutProc(t *testing.T) {
	hidden := func(args ...string) *exec.Cmd {
		return exec.Command("unshare",
			append([]string{"-m", "sh", "-c", `mount -t tmpfs none /proc && exec "$@"`, "sh"}, args...)...)
	}
	if out, err := hidden("true").CombinedOutput(); err != nil {
		t.Skipf("nothing can be mounted here: %v %s", err, out)
	}
	for _, args := range [][]string{{"doctor"}, {"call", "echo"}} {
		cmd := hidden(append(append([]string{builtProgram(t)}, args...), "--config", "/dev/null", "--state",
			"memory", "--tool", "echo=echo")...)
		cmd.Env = environ(t)
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "; mount /proc") {
			t.Errorf("%s: %v\n%s", args[0], err, out)
		}
	}
}

// A shell is the one that a call takes, whatever the PATH.
func TestDoctorWithoutPath(t *testing.T) {
	flags := append(writeConfig(t, "tools: {a: {shell: echo}}"), "--state", "memory")
	var stdout, stderr syncBuffer
	code := cli.Run(t.Context(), append([]string{"doctor"}, flags...), nil, strings.NewReader(""),
		&stdout, &stderr)
	if code != exitFine || !strings.Contains(stdout.String(), "ok     tool a: /bin/sh\n") {
		t.Errorf("exit code %d\n%s%s", code, &stdout, &stderr)
	}
}

// The state is looked at while it is in use, and what is wrong with it is told.
func TestDoctorOfAState(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "state")
	doctor := func() outcome { return people(t, "doctor", "--state", state) }
	doctor().is(t, exitFine, `.*ok     state: `+state+`: not there yet, the first task makes it\n.*`, "")
	if _, err := os.Stat(state); err == nil {
		t.Error("looking makes a state")
	}
	host := newWitness(t, programCommand(t, "--selftest", "--state", state))
	host.call("tools/call", map[string]any{"name": "sleep", "arguments": map[string]any{"ms": 600000},
		"task": map[string]any{}})
	doctor().is(t, exitFine, `.*ok     state: `+state+`: 1 task, 1 not ended, in use by 1 runnel, .*`, "")
	host.end()
	if err := os.Chmod(state, 0o777); err != nil {
		t.Fatal(err)
	}
	doctor().is(t, exitFailure, `.*WRONG  state: .*others may write `+state+
		` \(drwxrwxrwx\): take their rights with chmod .*`, "")
	if err := os.Chmod(state, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(state, "runnel.db"), 0o644); err != nil {
		t.Fatal(err)
	}
	doctor().is(t, exitFailure, `.*WRONG  state: other users may read these files; .*`+state+
		`/runnel.db \(-rw-r--r--\)\n.*`, "")
	if err := os.WriteFile(filepath.Join(state, "runnel.db"), []byte(strings.Repeat("no database ", 100)),
		0o600); err != nil {
		t.Fatal(err)
	}
	doctor().is(t, exitFailure, `.*WRONG  state: .*damaged or no state of runnel.*`, "")
	people(t, "doctor", "--state", "memory").is(t, exitFine, `.*ok     state: memory.*`, "")
	people(t, "doctor", "--state", "/dev/null/no").
		is(t, exitFailure, `.*WRONG  state: .*not a directory\n.*`, "")
}

// Another server is tried in both eras of the protocol; what it writes to stderr is shown.
func TestDoctorOfAServer(t *testing.T) {
	server := []string{"doctor", "--", builtProgram(t), "serve", "--selftest", "--state", "memory",
		"--log-level", "error"}
	listed := strings.Count(runClient(t, "", append([]string{"tools", "-o", "ndjson"}, server[1:]...)...).
		stdout, "\n")
	for range 2 { // as many as runnel tools lists
		said := fmt.Sprintf(`ok     version: .*ok     2025-11-25: runnel devel, protocol 2025-11-25, %[1]d tools, \d+ ms\nok     2026-07-28: runnel devel, protocol 2026-07-28, %[1]d tools, .*`, listed)
		runClient(t, "", server...).is(t, exitFine, said, "")
	}
	runClient(t, "", "doctor", "--", "/nonexistent/server").
		is(t, exitFailure, `.*WRONG  2025-11-25: .*/nonexistent/server.*WRONG  2026-07-28: .*`, "")
	runClient(t, "", "doctor", "codex", "--", "server").
		is(t, exitUsage, "", "it checks hosts or a server, not both")
}

// A server that starts well and ends in the middle of its work, again and again, is shown with how often,
// why, and the file with all that it wrote.
func TestDoctorOfACrashLoop(t *testing.T) {
	t.Parallel()
	server := filepath.Join(t.TempDir(), "server")
	script := `#!/bin/sh
while read -r line; do
	id=$(printf %s "$line" | sed 's/.*"id":\([^,}]*\).*/\1/')
	case $line in
	*'"initialize"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"shaky","version":"1"}}}' ;;
	*'"tools/list"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[{"name":"work","inputSchema":{"type":"object"}}]}}' ;;
	*'"tools/call"'*) echo "cannot reach the database" >&2; exit 7 ;;
	*'"id":'*) echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"no"}}' ;;
	esac
done
`
	if err := os.WriteFile(server, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	args := append(writeConfig(t, "upstreams:\n  shaky: {command: ["+server+"]}"), "--state",
		filepath.Join(t.TempDir(), "state"))
	people(t, append([]string{"doctor"}, args...)...).
		is(t, exitFine, `.*ok     upstream shaky: shaky 1, .*`, "")
	w := newWitness(t, programCommand(t, args...))
	for range 3 { // when the third call reaches it, its second end has been noted
		if a := w.call("tools/call", map[string]any{"name": "work",
			"arguments": map[string]any{}}); !strings.Contains(string(a.Result), "exit status 7") {
			t.Errorf("a call of a server that dies is answered with %s, %v", a.Result, a.Error)
		}
	}
	w.end()
	for range 2 {
		got := people(t, append([]string{"doctor"}, args...)...)
		got.is(t, exitFailure, `.*WRONG  upstream shaky: it starts, but has ended [23] times in the last hour, the last time: [^\n]*exit status 7; [^\n]*cannot reach the database[^\n]*\n +what it wrote is in /.*`, "")
		if file := regexp.MustCompile(`what it wrote is in (.*)`).
			FindStringSubmatch(got.stdout); file != nil {
			if wrote, err := os.ReadFile(file[1]); strings.Count(string(wrote),
				"\ncannot reach the database\n") < 2 {
				t.Errorf("%s has %s, %v", file[1], wrote, err)
			}
		}
	}
}

// A state that another user has made, and rows that SQLite finds sound but no runnel has written, are found.
func TestDoctorOfADamagedState(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	host := newWitness(t, programCommand(t, "--selftest", "--state", state))
	host.call("tools/call", map[string]any{"name": "sleep", "arguments": map[string]any{"ms": 600000},
		"task": map[string]any{}})
	host.end()
	doctor := func() outcome { return people(t, "doctor", "--state", state) }
	doctor().is(t, exitFine, `.*ok     state: `+state+`: 1 task, 0 not ended, .*`, "")
	db, err := sql.Open("sqlite", filepath.Join(state, "runnel.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("UPDATE task SET outcome = NULL"); err != nil {
		t.Fatal(err)
	}
	doctor().is(t, exitFailure, `.*WRONG  state: some tasks in `+state+
		` are damaged; the others are not. Forget each with runnel tasks rm ID:\n +task [0-9a-f-]{36}: it has ended, but its result is missing\n.*`, "")
	list := people(t, "tasks", "list", "--state", state)
	id, _, _ := strings.Cut(list.stdout[strings.Index(list.stdout, "\n")+1:], " ") // below the heads
	if !strings.Contains(list.stdout, id+"  failed") {
		t.Errorf("listed: %s", list.stdout)
	}
	people(t, "tasks", "result", id, "--state", state).
		is(t, exitFailure, "", `.*the state is damaged, and the result of this task with it: it has ended, but its result is missing.*`)
	people(t, "tasks", "rm", id, "--state", state).is(t, exitFine, "", `.*`)
	doctor().is(t, exitFine, `.*ok     state: `+state+`: 0 tasks, 0 not ended, .*`, "")
	if err := os.Chown(state, 65534, -1); os.IsPermission(err) {
		t.Skip("only root can give files away")
	} else if err != nil {
		t.Fatal(err)
	}
	doctor().is(t, exitFailure, `.*WRONG  state: .*`+state+
		` belongs to another user \(65534\): .*chown -R .*`, "")
}

// Where there is little room on the disk, or the system allows fewer files and processes than the config
// needs, it is told.
func TestDoctorOfScarcity(t *testing.T) {
	const script = `mount -t tmpfs -o size=20m none "$0" && { "$@"; code=$?; umount "$0"; exit $code; }`
	dir := t.TempDir()
	small := func(args ...string) *exec.Cmd {
		cmd := exec.Command("unshare", append([]string{"-m", "sh", "-c", script, dir}, args...)...)
		cmd.Env = append(environ(t), noConfig)
		return cmd
	}
	if out, err := small("prlimit", "--nofile=300", "--nproc=100", "true").CombinedOutput(); err != nil {
		t.Skipf("no disk can be mounted here: %v %s", err, out)
	}
	out, _ := small("prlimit", "--nofile=300", "--nproc=100", builtProgram(t), "doctor", "--state", dir).
		CombinedOutput()
	for _, want := range []string{
		`WRONG  disk: [0-9.]+ MiB are free for ` + dir + `, `,
		`WRONG  limits: 300 open files are allowed, and 356 calls at once .* \(ulimit -n 1488\)`,
		`WRONG  limits: 100 processes are allowed, .* \(ulimit -u 744\)`,
	} {
		if !regexp.MustCompile("(?m)^" + want).Match(out) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	out, err := exec.Command("prlimit", "--nofile=300", builtProgram(t), "doctor", "--config",
		writeConfig(t, "tasks: {maxLive: 4}\nlimits: {maxInFlight: 8}\n")[1], "--state", "memory").
		CombinedOutput()
	if err != nil || !regexp.MustCompile(`(?m)^ok     limits: enough files and processes for 12 calls at once$`).Match(out) {
		t.Errorf("%v\n%s", err, out)
	}
}
