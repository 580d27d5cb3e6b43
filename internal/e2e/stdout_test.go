package e2e

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"runnel/internal/cli"
)

// A command that prints a list ends without a word when nobody reads it any more, as with head.
func TestNobodyReads(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"tools", "--selftest"}, {"config", "schema"}, {"version"}, {"completion", "bash"}, {"doctor", "--state", "memory"}} {
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
		if stderr.String() != "" || !cmd.ProcessState.Exited() {
			t.Errorf("%q: %v\n%s", args, cmd.ProcessState, &stderr)
		}
	}
}

// A server says that its host reads nothing.
func TestHostReadsNothing(t *testing.T) {
	for _, command := range []string{"", "serve", "doctor --host"} {
		var stderr syncBuffer
		code := cli.Run(t.Context(), append(strings.Fields(command), "--state", "memory"), append(environ(t), noConfig), strings.NewReader(initialize+"\n"), goneStdout{}, &stderr)
		if code != exitFailure || !strings.HasSuffix(stderr.String(), "runnel: writing to the client: write /dev/stdout: broken pipe\n") {
			t.Errorf("%q: exit code %d, stderr %q", command, code, &stderr)
		}
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
	code := cli.Run(t.Context(), []string{"call", "yes", "--tool", "yes=yes"}, append(environ(t), noConfig), strings.NewReader(""), w, &stderr)
	if code != exitFailure || !strings.Contains(stderr.String(), "writing the output") {
		t.Errorf("exit code %d, stderr %q", code, &stderr)
	}
}

// fullDisk is an output that takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// Output that cannot be written from the first byte on ends the call, too: with ndjson that byte comes before the call.
func TestStdoutIsFull(t *testing.T) {
	call := "call echo text=hello --selftest --output "
	for _, command := range []string{call + "text", call + "json", call + "ndjson", "doctor"} {
		var stderr syncBuffer
		args := strings.Fields(command)
		code := cli.Run(t.Context(), args, append(environ(t), noConfig), strings.NewReader(""), fullDisk{}, &stderr)
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
	for _, command := range []string{"--help", "help", "help call", "tasks list --help", "version", "config schema", "config check " + config,
		"tools --selftest", "tools --selftest --output json", "tasks list -o json " + state, "completion bash", "completion zsh", "completion fish", "completion powershell"} {
		var stderr syncBuffer
		code := cli.Run(t.Context(), strings.Fields(command), append(environ(t), noConfig), strings.NewReader(""), fullDisk{}, &stderr)
		if code != exitFailure || !strings.HasSuffix(stderr.String(), "runnel: no space left on device\n") {
			t.Errorf("%s: exit code %d, stderr %q", command, code, &stderr)
		}
	}
}
