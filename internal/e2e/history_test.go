package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"runnel/rpc/mcp"
)

// What a host has called stands in "runnel tasks list" while it runs and afterwards, also if its host and
// runnel are killed in the middle. Clients do not find it.
func TestHistoryOfAHost(t *testing.T) {
	t.Parallel()
	flags := []string{"--state", t.TempDir()}
	serve := append(writeConfig(t, `tools:
  hi: {command: [echo, "hi {{n}}"], input: {n: {type: string}}}
  bad: {shell: "echo oh; exit 3"}
  long: {shell: "echo first; sleep 600"}`), flags...)
	list := func() (lines []string) {
		for line := range strings.Lines(runClient(t, "",
			append([]string{"tasks", "list", "-o", "ndjson"}, flags...)...).stdout) {
			var task struct{ Tool, Status, StatusMessage string }
			if err := json.Unmarshal([]byte(line), &task); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			lines = append(lines, strings.TrimSpace(task.Tool+" "+task.Status+" "+task.StatusMessage))
		}
		return lines
	}
	await := func(want ...string) {
		t.Helper()
		for deadline := time.Now().Add(watchdog); !slices.Equal(list(),
			want); <-time.After(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("listed are %q, want %q", list(), want)
			}
		}
	}
	w := newWitness(t, programCommand(t, serve...))
	for range 2 {
		w.must(&mcp.CallToolResult{}, "tools/call",
			map[string]any{"name": "hi", "arguments": map[string]any{"n": "one"}})
		w.must(&mcp.CallToolResult{}, "tools/call",
			map[string]any{"name": "bad", "arguments": map[string]any{}})
		// A call of one of runnel's own tools is not kept.
		w.must(&mcp.CallToolResult{}, "tools/call",
			map[string]any{"name": "list_tasks", "arguments": map[string]any{}})
	}
	const fine, failed = "hi completed", "bad failed exit code 3\noh"
	await(fine, failed, fine, failed)
	w.ask("tools/call", map[string]any{"name": "long", "arguments": map[string]any{}})
	await(fine, failed, fine, failed, "long working first")
	var found mcp.ListTasksResult
	w.must(&found, "tasks/list", map[string]any{})
	if len(found.Tasks) > 0 {
		t.Errorf("the client finds %+v", found.Tasks)
	}
	w.kill()
	await(fine, failed, fine, failed,
		"long failed the runnel that ran this task is gone (killed, or it crashed); the output up to then is kept")
	again := newWitness(t, programCommand(t, serve...))
	again.must(&mcp.CallToolResult{}, "tools/call",
		map[string]any{"name": "hi", "arguments": map[string]any{"n": "two"}})
	again.end()
	if got := list(); len(got) != 6 || got[5] != fine {
		t.Errorf("after the end of a session: %q", got)
	}
}

// A runnel that is killed in the middle of its host's calls loses those of the history that were not stored yet,
// and no others, and no answer.
func TestKillLosesTheNewestHistoryOnly(t *testing.T) {
	t.Parallel()
	flags := []string{"--selftest", "--state", t.TempDir(), "--set", "history.calls=1000"}
	listed := func() (ids []string) {
		return strings.Fields(runClient(t, "", append([]string{"tasks", "list", "-q"}, flags[1:]...)...).
			stdout)
	}
	const calls = 50
	var before []string
	for kill := range 2 {
		host := newWitness(t, programCommand(t, flags...))
		say := func(n int) {
			var result mcp.CallToolResult
			text := fmt.Sprintf("call %d", n)
			host.must(&result, "tools/call",
				map[string]any{"name": "echo", "arguments": map[string]any{"text": text}})
			if said, _ := mcp.TextOf(result.Content[0]); said != text {
				t.Errorf("the answer of %s is %q", text, said)
			}
		}
		for n := range calls {
			say(n)
		}
		var stored []string
		for deadline := time.Now().Add(watchdog); len(stored) < len(before)+calls; stored = listed() {
			if time.Now().After(deadline) {
				t.Fatalf("%d of %d calls are stored", len(stored), len(before)+calls)
			}
		}
		for n := range calls {
			say(n)
		}
		host.kill()
		after := listed()
		t.Logf("kill %d: %d calls stored, %d after %d more and SIGKILL", kill, len(stored), len(after), calls)
		for _, id := range stored {
			if !slices.Contains(after, id) {
				t.Errorf("%s is lost", id)
			}
		}
		if len(after) > len(stored)+calls {
			t.Errorf("%d calls are listed, %d were made", len(after), len(stored)+calls)
		}
		before = after
	}
	if working := runClient(t, "", append([]string{"tasks", "list", "--running", "-q"}, flags[1:]...)...).
		stdout; working != "" {
		t.Errorf("these seem to run: %s", working)
	}
}

// The list shows which host has made a call, as a plain call or as a task, and picks the calls of one.
func TestHistoryKnowsTheHost(t *testing.T) {
	t.Parallel()
	state := []string{"--state", stateDir(t)}
	w := newWitness(t, programCommand(t,
		append(writeConfig(t, `tools: {hi: {command: [echo, hi]}, bad: {shell: "exit 3"}}`), state...)...))
	for range 2 {
		for _, client := range []string{"claude-code", "gemini-cli-mcp-client",
			strings.Repeat("a\x1b[31m", 1000)} {
			for _, tool := range []string{"hi", "bad"} {
				w.must(&mcp.CallToolResult{}, "tools/call",
					map[string]any{"name": tool, "arguments": map[string]any{}, "_meta": takesTasks(client)})
			}
		}
	}
	w.end()
	list := func(args ...string) string {
		return runClient(t, "", append(append([]string{"tasks", "list"}, args...), state...)...).stdout
	}
	for _, c := range []struct {
		args string
		want int
	}{
		{"", 12},
		{"--host claude-code", 4},
		{"--host gemini", 4},
		{"--host gemini-cli-mcp-client --failed", 2},
		{"--host gemini --failed --tool hi", 0},
		{"--host claude-code --failed --tool bad --since 1h", 2},
		{"--since 1ns", 0},
		{"--host a", 0},
	} {
		if got := strings.Count(list(append(strings.Fields(c.args), "-q")...), "\n"); got != c.want {
			t.Errorf("%s: %d tasks, want %d:\n%s", c.args, got, c.want, list())
		}
	}
	table := list()
	if strings.Contains(table, "\x1b[31m") || strings.Count(table, " gemini-cli-mcp-client ") != 4 ||
		!strings.Contains(table, " HOST ") {
		t.Errorf("the table:\n%s", table)
	}
	if got := strings.Count(list("-o", "ndjson", "--host", "gemini"),
		`"host":"gemini-cli-mcp-client"`); got != 4 {
		t.Errorf("%d of 4 tasks name the host", got)
	}
}
