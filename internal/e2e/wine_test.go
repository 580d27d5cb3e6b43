package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The program for Windows, under Wine (make wine): a process of Windows is one of Linux there, too, and can
// be looked for as such.

func needsWine(t *testing.T) {
	t.Helper()
	if os.Getenv(otherProgram) == "" {
		t.Skip("make wine runs it")
	}
}

// killedByWine reports whether Wine has killed a program that had ended by itself. After ExitProcess the
// server of Wine 8 waits half a second
// for the process to be gone, then sends SIGKILL (strace shows it: kill(PID, 0) four times, kill(PID,
// SIGKILL)). On a busy machine that may
// be too early, and the exit code is lost: twice in 766 starts at a load of 15 on two processors. Nothing of
// runnel's can send this signal there.
func (s *session) killedByWine() bool {
	return os.Getenv(otherProgram) != "" && s.how == "signal: killed"
}

// needsUnix reports whether a transcript runs commands that Windows does not have (what stands behind a
// server is started by a shell), names its files, or sends a signal.
func (tr *transcript) needsUnix() bool {
	args := strings.Join(tr.args, " ")
	isSignal := func(st step) bool { return st.kind == "signal" }
	return tr.behind != "" || slices.ContainsFunc(tr.steps, isSignal) ||
		strings.Contains(tr.config, "shell:") || strings.Contains(tr.config, "command:") ||
		strings.Contains(args, "--tool") || strings.Contains(args, "/dev/")
}

// windowsNap is a command whose grandchild goes on for ten minutes.
const windowsNap = `nap=cmd /c "ping -n 600 127.0.0.1"`

// pings are the grandchildren of a session that are there.
func pings(mark string) (n int) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range lines {
		line, _ := os.ReadFile(file)
		environ, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "environ"))
		if bytes.HasPrefix(line, []byte("ping")) && bytes.Contains(environ, []byte(mark)) {
			n++
		}
	}
	return n
}

// winNap starts a session whose grandchild runs. gone waits until there is none.
func winNap(t *testing.T) (s *session, gone func()) {
	mark := fmt.Sprintf("RUNNEL_TEST_NAP=%d", time.Now().UnixNano())
	cmd := racedCommand(t, "--tool", windowsNap, "--state", "memory")
	cmd.Env = append(cmd.Env, mark)
	s = process(t, cmd)
	s.open()
	s.sendLine(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nap"}}`)
	until := func(what string, reached func() bool) {
		t.Helper()
		for deadline := time.Now().Add(2 * watchdog); !reached(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s\nstderr:\n%s", what, s.stderr)
			}
		}
	}
	until("no grandchild was started", func() bool { return pings(mark) > 0 })
	return s, func() { t.Helper(); until("a grandchild is left", func() bool { return pings(mark) == 0 }) }
}

func TestWindowsCancelEndsGrandchildren(t *testing.T) {
	needsWine(t)
	s, gone := winNap(t)
	s.sendLine(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	gone()
}

func TestWindowsKillEndsGrandchildren(t *testing.T) {
	needsWine(t)
	s, gone := winNap(t)
	if err := syscall.Kill(s.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	gone()
	<-s.exited
}

func TestWindowsEOFEndsGrandchildren(t *testing.T) {
	needsWine(t)
	s, gone := winNap(t)
	if err := s.closeStdin(); err != nil {
		t.Fatal(err)
	}
	gone()
	<-s.exited
}

// Arguments reach a command, a batch file and a script as they are: nothing in them is run.
func TestWindowsArguments(t *testing.T) {
	needsWine(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "say.cmd"), []byte("@echo batch %1\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config := writeConfig(t, fmt.Sprintf(`
tools:
  batch:
    command: [%q, "{{word}}"]
    input: {word: {type: string}}
  script:
    shell: echo script !word!
    input: {word: {type: string}}
`, "Z:"+filepath.Join(dir, "say.cmd")))
	s := process(t, racedCommand(t, append(config, "--state", "memory")...))
	s.open()
	for id, c := range []struct{ tool, word, says string }{
		{"batch", "plain", "batch plain"},
		{"batch", "a b", `batch \"a b\"`},
		{"batch", "a&echo broken", `batch \"a&echo broken\"`},
		// %PATH% is left out: the cmd.exe of Wine reads % in other ways than that of Windows.
		{"script", "a&echo broken", "script a&echo broken"},
	} {
		s.sendLine(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"word":%q}}}`, id+1, c.tool, c.word)
		for {
			line := strings.ReplaceAll(string(s.line()), `\u0026`, "&")
			if strings.Contains(line, `"method"`) {
				continue
			}
			if !strings.Contains(line, c.says) || strings.Contains(line, `broken\r\n\"`) {
				t.Errorf("%s %s: %s", c.tool, c.word, line)
			}
			break
		}
	}
}
