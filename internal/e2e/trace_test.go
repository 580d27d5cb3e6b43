package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"runnel/internal/cli"
)

// Bytes pass a trace unchanged, whatever they are; the exit code is the server's, and the file tells what
// passed.
func TestTrace(t *testing.T) {
	t.Parallel()
	const longestNoted = 1 << 20 // the longest line that a trace shows
	file := filepath.Join(t.TempDir(), "trace")
	input := "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r\n\xff\x00 no message\n\n[1]\n" +
		strings.Repeat("x", longestNoted+10) + "\nno newline"
	for _, c := range []struct {
		server string
		code   int
	}{{"cat", 0}, {"cat; exit 7", 7}, {"cat; kill -KILL $$", 137}} {
		got := runClient(t, input, "trace", "--file", file, "--", "sh", "-c", c.server)
		if got.code != c.code || got.stdout != input || got.stderr != "" {
			t.Errorf("%s: exit code %d, %d bytes of %d, stderr %q", c.server, got.code, len(got.stdout),
				len(input), got.stderr)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"--> ping | {", "--> NO MESSAGE: ", "--> a batch | [1]\n",
			fmt.Sprintf("<-- a line of %d bytes\n", longestNoted+10), "# ",
			"--> NO MESSAGE: invalid character 'o' in literal null (expecting 'u') | no newline\n",
			"<-- NO MESSAGE: invalid character 'o' in literal null (expecting 'u') | no newline\n",
			" the line before it has no end", "the server ended: "} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s: the trace does not say %q:\n%.2000s", c.server, want, text)
			}
		}
	}
	for args, says := range map[string]string{
		"trace -- cat":                        "name it with --file",
		"trace --file " + file:                "Its command comes after --",
		"trace --file " + file + " x -- cat":  "unknown argument",
		"trace --file /no/such/folder/x -- y": "no such file or directory",
	} {
		if got := runClient(t, "", strings.Fields(args)...); got.code != exitUsage ||
			!strings.Contains(got.stderr, says) {
			t.Errorf("%s: %+v", args, got)
		}
	}
	if got := runClient(t, "", "trace", "--file", file, "--", "/no/such/server"); got.code != exitFailure ||
		!strings.Contains(got.stderr, "cannot start") {
		t.Errorf("%+v", got)
	}
}

// Messages may be secret: their file is the user's alone, whatever it was before, and nobody's link leads it
// elsewhere.
func TestTraceIsPrivate(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "trace")
	link := filepath.Join(dir, "link")
	foreign := filepath.Join(dir, "foreign")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{file, link} {
		if err := os.WriteFile(file, []byte("what was there"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, 0o666); err != nil {
			t.Fatal(err)
		}
		if got := runClient(t, "", "trace", "--file", name, "--", "true"); got.code != exitFine {
			t.Errorf("%+v", got)
		}
		info, err := os.Stat(file)
		text, _ := os.ReadFile(file)
		if err != nil || info.Mode().Perm() != 0o600 || strings.Contains(string(text), "what was there") {
			t.Errorf("%s: %v, %v: %.100s", name, info.Mode(), err, text)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file to somebody else")
	}
	const nobody = 65534
	for _, name := range []string{file, foreign} {
		_ = os.Symlink(file, foreign)
		if err := os.Lchown(name, nobody, nobody); err != nil {
			t.Fatal(err)
		}
		if got := runClient(t, "", "trace", "--file", name, "--", "true"); got.code != exitUsage ||
			!strings.Contains(got.stderr, "another user") {
			t.Errorf("%s: %+v", name, got)
		}
		if err := os.Lchown(file, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// A signal ends the server, as it wishes to end.
func TestTraceIsToldToEnd(t *testing.T) {
	t.Parallel()
	for server, code := range map[string]int{
		`trap "exit 5" TERM; echo up; while :; do sleep 0.05; done`: 5,
		`trap "exit 0" TERM; echo up; while :; do sleep 0.05; done`: 0,
		`echo up; exec sleep 1000`:                                  0,
	} {
		ctx, cancel := context.WithCancel(t.Context())
		stdin, w := io.Pipe()
		stdout := &trigger{text: "up", do: cancel}
		var stderr syncBuffer
		got := cli.Run(ctx, []string{"trace", "--file", os.DevNull, "--", "sh", "-c", server}, environ(t),
			stdin, stdout, &stderr)
		// Some shells tell how their sleep ended.
		said := strings.ReplaceAll(stderr.String(), "Terminated\n", "")
		if got != code || said != "" {
			t.Errorf("%s: exit code %d, want %d, stderr %q", server, got, code, &stderr)
		}
		_ = w.Close()
		cancel()
	}
}

// A call through a trace is as one without, and the trace tells who asked, what was answered when, and each
// number.
func TestTraceOfACall(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "trace")
	for _, c := range []struct {
		flags string
		says  []string
	}{
		{"--protocol=2025-11-25", []string{"initialize: runnel ", "it can do tasks of 2025-11-25",
			"response to tools/call stream: after ", "; task ",
			"notifications/tasks/partial: seq 0 |", "notifications/tasks/status: completed |",
			"response to tasks/result: after "}},
		{"--protocol=2025-11-25 --mode=streaming", []string{"response to tools/call stream: after "}},
		{"--protocol=2026-07-28 --no-task",
			[]string{"server/discover: runnel ", "notifications/tools/partial_result: seq 0 |"}},
	} {
		args := append([]string{"call", "stream", "count=3"}, strings.Fields(c.flags)...)
		args = append(args, "--", "env", noSleepAtExit, racedProgram(t), "trace", "--file", file)
		got := runClient(t, "", append(args, itself(t, "--selftest", "--pace=0")...)...)
		text, err := os.ReadFile(file)
		if got.code != exitFine || !strings.HasSuffix(got.stdout, "streamed 3 chunks") || err != nil {
			t.Errorf("%s: %+v, %v", c.flags, got, err)
		}
		for _, want := range c.says {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s: the trace does not say %q:\n%s", c.flags, want, text)
			}
		}
		if bytes.Contains(text, []byte("ANSWERS NOTHING")) || bytes.Contains(text, []byte("GAP")) {
			t.Errorf("%s:\n%s", c.flags, text)
		}
	}
}

// A trace that is killed leaves nothing of its server, neither one that waits for more than the end of its
// input nor what that started.
func TestKilledTraceLeavesNoServer(t *testing.T) {
	t.Parallel()
	for range 2 {
		cmd := programCommand(t, "trace", "--file", os.DevNull, "--", "sh", "-c",
			"sleep 600 & echo $! $$; exec sleep 600")
		in, out := pipes(t, cmd)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var helper, server int
		if _, err := fmt.Fscan(out, &helper, &server); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		gone(t, helper)
		gone(t, server)
		_ = in.Close()
	}
}
