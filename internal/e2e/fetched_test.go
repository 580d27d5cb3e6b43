package e2e

import (
	"bufio"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"runnel/rpc/mcp"
)

// A prune leaves results that were never fetched, neither by a client (tasks/result) nor by a person (runnel
// tasks result). --force deletes them, too.
func TestPruneLeavesWhatNobodyFetched(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	host := newWitness(t, programCommand(t, "--selftest", "--state", state))
	start := func(tool string, arguments map[string]any) string {
		var created mcp.CreateTaskResult
		host.must(&created, "tools/call",
			map[string]any{"name": tool, "arguments": arguments, "task": map[string]any{}})
		return created.Task.TaskID
	}
	word := map[string]any{"text": "x"}
	byHost := start("echo", word)
	byHand := start("echo", word)
	never := start("echo", word)
	runs := start("sleep", map[string]any{"ms": 600000})
	in := func(args ...string) outcome {
		return people(t, append(append([]string{"tasks"}, args...), "--state", state)...)
	}
	for _, id := range []string{byHost, byHand, never} {
		in("wait", id).is(t, exitFine, id+" completed\n", "") // to wait is not to fetch
	}
	in("prune").is(t, exitFine, "",
		`^0 forgotten, 3 kept whose results were not fetched yet \(--force forgets them too\)\n$`)
	host.call("tasks/result", map[string]any{"taskId": byHost})
	in("result", byHand).is(t, exitFine, "x", "")
	in("prune").is(t, exitFine, `ID [^\n]*\n[^\n]+\n[^\n]+\n`, `^2 forgotten, 1 kept whose results`)
	in("result", never).is(t, exitFine, "x", "")

	in("rm", runs).is(t, exitFailure, "",
		"^runnel: task "+runs+" still runs: end it with runnel tasks cancel "+runs+"\n$")
	in("rm", never).is(t, exitFine, "", "")
	in("get", never).is(t, exitFailure, "", "there is no task")
	last := start("fail", map[string]any{"message": "no"})
	in("wait", last).is(t, exitFailure, last+" failed\n", "")
	in("prune", "--force").is(t, exitFine, `ID [^\n]*\n[^\n]+\n`, "^1 forgotten\n$")
	host.kill()
}

// On a terminal a line of the list is as long as the terminal is wide, and --watch shows what has changed.
func TestListOnATerminal(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	host := newWitness(t, programCommand(t, "--selftest", "--state", state))
	var created mcp.CreateTaskResult
	host.must(&created, "tools/call",
		map[string]any{"name": "sleep", "arguments": map[string]any{"ms": 600000}, "task": map[string]any{}})
	id := created.Task.TaskID

	cmd := programCommand(t, "tasks", "list", "--watch", "--state", state)
	const width = 30
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 10, Cols: width})
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	defer time.AfterFunc(watchdog, func() { _ = cmd.Process.Kill() }).Stop()
	lines, escapes := bufio.NewScanner(terminal), regexp.MustCompile(`\x1b\[[0-9;]*[A-Z]`)
	until := func(text string) {
		t.Helper()
		for lines.Scan() {
			line := escapes.ReplaceAllString(strings.TrimRight(lines.Text(), "\r"), "")
			if n := len([]rune(line)); n > width {
				t.Errorf("%d columns: %q", n, line)
			}
			if strings.HasPrefix(line, text) {
				return
			}
		}
		t.Fatalf("no line %q", text)
	}
	until(id[:8] + "  working")
	people(t, "tasks", "cancel", id, "--state", state).is(t, exitFine, id+" cancelled\n", "")
	until(id[:8] + "  cancelled")
	_ = cmd.Process.Signal(syscall.SIGINT)
	for lines.Scan() {
		continue
	}
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != exitInterrupted {
		t.Error(cmd.ProcessState)
	}
	host.end()
}
