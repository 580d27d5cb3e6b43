package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// canceller ends a context when something is written.
type canceller struct{ cancel context.CancelFunc }

func (c canceller) Write(p []byte) (int, error) {
	c.cancel()
	return len(p), nil
}

// A Ctrl-C may come while a call ends by itself. The race detector looks at what is said about it.
func TestInterruptedAtTheEnd(t *testing.T) {
	t.Parallel()
	env := []string{"XDG_STATE_HOME=" + t.TempDir(), "HOME=" + t.TempDir(), "RUNNEL_CONFIG=/dev/null"}
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		Run(ctx, []string{"call", "stream", "count=1", "--selftest", "-o", "json"}, env, nil,
			canceller{cancel}, io.Discard)
		cancel()
	}
}

// A server may send output of a call that has not been made yet. The race detector looks at when that began.
func TestOutputBeforeTheCall(t *testing.T) {
	t.Parallel()
	const server = `read -r _; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"early","version":"1"}}}'
read -r _; read -r _; echo '{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}}'
i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"runnel-call","progress":'$i',"partialResult":{"chunk":{"content":[{"type":"text","text":"early"}]},"append":true}}}'; done
read -r _; echo '{"jsonrpc":"2.0","id":3,"result":{"content":[]}}'; cat >/dev/null`
	var said strings.Builder
	env := []string{"HOME=" + t.TempDir(), "PATH=/usr/bin:/bin"}
	code := Run(t.Context(), []string{"call", "x", "--protocol", "2025-11-25", "--summary", "--", "/bin/sh",
		"-c", server}, env, nil, io.Discard, &said)
	if code != 0 || !strings.Contains(said.String(), "300 partials, gaps 2, first after ") {
		t.Error(code, said.String())
	}
}

// A call ends as a command of a shell would.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "runnel.yaml")
	if err := os.WriteFile(file, []byte(`
tools:
  slow: {command: [sleep, "1000"], timeout: 50ms}
  silent: {command: [sleep, "1000"], idleTimeout: 50ms}
  gone: {command: [no-such-program]}
  far: {command: [/no/such/program]}
  killed: {shell: "kill -9 $$"}
  terminated: {shell: "kill -15 $$"}
  three: {shell: "exit 3"}
  asks: {shell: "echo ran", confirm: "Run?"}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--config", file, "--state", filepath.Join(dir, "state")}
	for tool, want := range map[string]struct {
		code int
		said string
	}{
		"slow": {124, "timed out after 50ms"}, "silent": {124, "no output for 50ms"},
		"gone": {127, "cannot start no-such-program: not found in PATH="},
		"far":  {127, "cannot start /no/such/program: "}, "killed": {137, "killed by SIGKILL"},
		"terminated": {143, "killed by SIGTERM"}, "three": {3, "exit code 3"},
		"asks": {1, "--yes confirms"},
	} {
		for _, how := range []string{"--no-task", "--task", "--protocol=2024-11-05",
			"--protocol=2026-07-28"} {
			runCommand(t, append([]string{"call", tool, how}, flags...)...).says(t, want.code, want.said)
		}
	}
}

// says checks the exit code, and that something is said, on stdout or stderr.
func (o outcome) says(t *testing.T, code int, words string) {
	t.Helper()
	if o.code != code || !strings.Contains(o.stdout+o.stderr, words) {
		t.Errorf("%+v, want exit code %d and %q", o, code, words)
	}
}

// The arguments of a call may come on stdin, together or one of them.
func TestArgumentsOnStdin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, stdin, want string }{
		{"text=@-", "of stdin\n", "of stdin\n"},
		{"--input @-", `{"text": "all"}`, "all"},
		{`--input {"text":"one"}`, "", "one"},
		{`--input @- text=word`, `{"text": "all"}`, "word"},
	} {
		for range 2 {
			var out, said strings.Builder
			args := append([]string{"call", "echo", "--selftest"}, strings.Fields(c.args)...)
			if code := Run(t.Context(), args, environ(t), strings.NewReader(c.stdin), &out,
				&said); code != exitFine || out.String() != c.want {
				t.Errorf("%s: exit code %d, %q, %q, want %q", c.args, code, out.String(),
					said.String(), c.want)
			}
		}
	}
}

// What a command wrote goes to stdout, and nothing else does: not what runnel or the tool says of an error,
// in whatever way it comes.
func TestErrorsAreNotOutput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "runnel.yaml")
	if err := os.WriteFile(file, []byte(`
tools:
  gone: {command: [no-such-program]}
  asks: {shell: "echo ran", confirm: "Run?"}
  three: {shell: "echo output; exit 3"}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	const chunks = "chunk 000000 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\nchunk 000001 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n"
	for call, want := range map[string]struct{ stdout, stderr string }{
		"gone":                              {"", "cannot start no-such-program: not found in PATH="},
		"asks":                              {"", "--yes confirms"},
		"three":                             {"output\n", "exit code 3 after "},
		"fail message=bad afterChunks=2":    {chunks, "bad\n"},
		"fail message=broken protocol=true": {"", "runnel: fail: broken (code -32603)\n"},
		"panic":                             {"", "runnel: panic: internal error"},
	} {
		for _, how := range []string{"--no-task", "--no-task", "--task", "--task", "--mode=streaming",
			"--mode=streaming"} {
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			var stderr strings.Builder
			args := append([]string{"call", how, "--selftest", "--config", file, "--state",
				filepath.Join(dir, "state")}, strings.Fields(call)...)
			code := Run(t.Context(), args, environ(t), nil, write, &stderr)
			_ = write.Close()
			stdout, _ := io.ReadAll(read)
			_ = read.Close()
			if code == exitFine || string(stdout) != want.stdout ||
				!strings.Contains(stderr.String(), want.stderr) {
				t.Errorf("%s %s: exit code %d, %q, %q", call, how, code, stdout, stderr.String())
			}
		}
	}
}
