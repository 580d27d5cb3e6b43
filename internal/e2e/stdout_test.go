package e2e

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"runnel/internal/cli"
)

// A command that prints a list ends without a word when nobody reads it any more, as with head.
func TestNobodyReads(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"tools", "--selftest"}, {"config", "schema"}, {"version"},
		{"completion", "bash"}, {"doctor", "--state", "memory"}} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Close()
		cmd := programCommand(t, args...)
		var stderr syncBuffer
		cmd.Stdout, cmd.Stderr = w, &stderr
		_ = cmd.Run()
		_ = w.Close()
		want := exitUnread
		if args[0] == "doctor" { // its exit code is its verdict
			want = cmd.ProcessState.ExitCode()
		}
		if stderr.String() != "" || !cmd.ProcessState.Exited() || cmd.ProcessState.ExitCode() != want {
			t.Errorf("%q: %v\n%s", args, cmd.ProcessState, &stderr)
		}
	}
}

// A reader that leaves in the middle, as head does, ends what writes to it: the exit code is a shell's for
// SIGPIPE, and the call has ended.
func TestReaderLeaves(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	program := func(args string) *exec.Cmd {
		return programCommand(t,
			strings.Fields(args+" --state "+state)...)
	}
	readOne := func(cmd *exec.Cmd) {
		t.Helper()
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var stderr syncBuffer
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer time.AfterFunc(watchdog, func() { _ = cmd.Process.Kill() }).Stop()
		if _, err := stdout.Read(make([]byte, 1)); err != nil {
			t.Error(err)
		}
		_ = stdout.Close()
		_ = cmd.Wait()
		if cmd.ProcessState.ExitCode() != exitUnread || stderr.String() != "" {
			t.Errorf("%q: %v\n%s", cmd.Args[1:], cmd.ProcessState, &stderr)
		}
	}
	for _, output := range []string{"text", "ndjson"} {
		readOne(program("call yes --tool yes=yes -o " + output))
	}
	list, err := program("tasks list -o ndjson").Output()
	if err != nil || !strings.Contains(string(list), `"status":"cancelled"`) ||
		strings.Contains(string(list), `"status":"working"`) {
		t.Errorf("%v: a call goes on, or none has begun:\n%s", err, list)
	}
	if out, err := program("call stream count=100000 --selftest").CombinedOutput(); err != nil {
		t.Fatalf("%v: %.200s", err, out)
	}
	list, err = program("tasks list -o ndjson").Output()
	id := regexp.MustCompile(`"taskId":"([0-9a-f-]+)","status":"completed"`).FindSubmatch(list)
	if id == nil {
		t.Fatalf("%v: no task that has completed:\n%s", err, list)
	}
	readOne(program("tasks tail " + string(id[1])))
}

// A server says that its host reads nothing.
func TestHostReadsNothing(t *testing.T) {
	for _, command := range []string{"", "serve"} {
		var stderr syncBuffer
		code := cli.Run(t.Context(), append(strings.Fields(command), "--state", "memory"),
			append(environ(t), noConfig), strings.NewReader(initialize+"\n"), goneStdout{}, &stderr)
		if code != exitFailure || !strings.HasSuffix(stderr.String(),
			"runnel: writing to the client: write /dev/stdout: broken pipe\n") {
			t.Errorf("%q: exit code %d, stderr %q", command, code, &stderr)
		}
	}
}

// A trace of a server at a URL ends like any command whose output nobody reads.
func TestTraceOfAURLReadsNothing(t *testing.T) {
	t.Parallel()
	s := serveHTTP(t, "--selftest", "--state", "memory")
	var stderr syncBuffer
	code := cli.Run(t.Context(), []string{"trace", "--file", filepath.Join(t.TempDir(), "trace"), "--url",
		s.url}, append(environ(t), noConfig), strings.NewReader(initialize+"\n"), goneStdout{}, &stderr)
	if code != exitUnread || stderr.String() != "" {
		t.Errorf("exit code %d, stderr %q", code, &stderr)
	}
}

// --summary says the exit code that the program ends with.
func TestSummaryOfUnreadOutput(t *testing.T) {
	var stderr syncBuffer
	code := cli.Run(t.Context(), []string{"call", "echo", "text=x", "--selftest", "--summary"},
		append(environ(t), noConfig), strings.NewReader(""), goneStdout{}, &stderr)
	if code != exitUnread || !strings.Contains(stderr.String(), fmt.Sprintf("; exit code %d, ", exitUnread)) {
		t.Errorf("exit code %d, stderr %q", code, &stderr)
	}
}

type goneStdout struct{}

func (goneStdout) Write([]byte) (int, error) {
	return 0, &fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}
}

// Output that nobody reads any more ends the call.
func TestStdoutIsGone(t *testing.T) {
	r, w := io.Pipe()
	go func() {
		_, _ = r.Read(make([]byte, 10))
		_ = r.Close()
	}()
	var stderr syncBuffer
	code := cli.Run(t.Context(), []string{"call", "yes", "--tool", "yes=yes"}, append(environ(t), noConfig),
		strings.NewReader(""), w, &stderr)
	if code != exitFailure || !strings.Contains(stderr.String(), "writing the output") {
		t.Errorf("exit code %d, stderr %q", code, &stderr)
	}
}

// fullDisk is an output that takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// Output that cannot be written from the first byte on ends the call, too: with ndjson that byte comes before
// the call.
func TestStdoutIsFull(t *testing.T) {
	call := "call echo text=hello --selftest --output "
	for _, command := range []string{call + "text", call + "json", call + "ndjson", "doctor"} {
		var stderr syncBuffer
		args := strings.Fields(command)
		code := cli.Run(t.Context(), args, append(environ(t), noConfig), strings.NewReader(""),
			fullDisk{}, &stderr)
		if code != exitFailure || stderr.String() != "runnel: writing the output: no space left on device\n" {
			t.Errorf("%s: exit code %d, stderr %q", command, code, &stderr)
		}
	}
}

// So does what only prints.
func TestNothingIsWritten(t *testing.T) {
	state := "--state " + t.TempDir()
	config := filepath.Join(t.TempDir(), "runnel.yaml")
	if err := os.WriteFile(config, []byte("tools: {a: {command: [echo]}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"--help", "help", "help call", "tasks list --help", "version",
		"config schema", "config check " + config,
		"tools --selftest", "tools --selftest --output json", "tasks list -o json " + state,
		"completion bash", "completion zsh", "completion fish", "completion powershell"} {
		var stderr syncBuffer
		code := cli.Run(t.Context(), strings.Fields(command), append(environ(t), noConfig),
			strings.NewReader(""), fullDisk{}, &stderr)
		if code != exitFailure || !strings.HasSuffix(stderr.String(), "runnel: no space left on device\n") {
			t.Errorf("%s: exit code %d, stderr %q", command, code, &stderr)
		}
	}
}
