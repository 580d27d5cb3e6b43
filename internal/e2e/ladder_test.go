package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// A model that follows a call to its end by polling pays for its output once, and little for each poll.
func TestPollingShowsOutputOnce(t *testing.T) {
	t.Parallel()
	const lines, polls = 140, 70
	w := newWitness(t, programCommand(t, append(writeConfig(t, fmt.Sprintf(`
tools:
  build:
    shell: |
      i=0
      while [ $i -lt %d ]; do
        i=$((i+1))
        echo "[$i] compiling some/package/with/a/name and 'others' of it"
        sleep 0.025
      done
      exit 2
`, lines)), "--state", t.TempDir(), "--sync-wait", "100ms")...))
	var want strings.Builder
	for i := range lines {
		fmt.Fprintf(&want, "[%d] compiling some/package/with/a/name and 'others' of it\n", i+1)
	}
	call := func(tool string, arguments map[string]any) (result mcp.CallToolResult, size int) {
		t.Helper()
		a := w.call("tools/call", map[string]any{"name": tool, "arguments": arguments})
		if err := json.Unmarshal(a.Result, &result); err != nil {
			t.Fatalf("%v %+v", err, a.Error)
		}
		return result, len(a.Result)
	}
	result, paid := call("build", map[string]any{})
	var got strings.Builder
	for _, c := range result.Content[1:] {
		output, _ := mcp.TextOf(c)
		got.WriteString(output)
	}
	id := rawjson.StringMember(rawjson.Encode(result.Meta[mcp.MetaTask]), "taskId")
	polled := 1 // the answer that handed it over
	for ended := false; !ended; polled++ {
		page, size := call("get_task_result", map[string]any{"task_id": id, "wait_ms": 50})
		paid += size
		shown, _ := mcp.TextOf(page.Content[0])
		last := strings.LastIndexByte(shown, '[')
		got.WriteString(shown[:last])
		if ended = rawjson.StringMember(rawjson.Encode(page.Meta[mcp.MetaTask]),
			"status") != "working"; ended != page.IsError ||
			ended != strings.HasPrefix(shown[last:], "[failed, exit code 2, ") {
			t.Fatalf("isError %t: %s", page.IsError, shown[last:])
		}
	}
	if output := got.String(); output != want.String() {
		t.Errorf("got %d bytes, want %d:\n%.500s", got.Len(), want.Len(), got.String())
	}
	// A client that asks again after the end is told how it ended, and nothing else.
	if again, _ := call("get_task_result", map[string]any{"task_id": id}); len(again.Content) != 1 ||
		!again.IsError || !strings.HasPrefix(firstTextOf(&again), "[failed, ") {
		t.Errorf("asked again: %+v", again)
	}
	if most := want.Len()*12/10 + 300*polled; polled < polls/2 || paid > most {
		t.Errorf("%d polls of %d bytes of output cost %d bytes, at most %d wanted", polled, want.Len(),
			paid, most)
	}
	t.Logf("%d polls of %d bytes of output cost %d bytes", polled, want.Len(), paid)
	w.end()
}

func firstTextOf(r *mcp.CallToolResult) string {
	text, _ := mcp.TextOf(r.Content[0])
	return text
}

// The reason why runnel stopped a task is told, even though the command's own end comes first.
func TestAStoppedTaskTellsWhy(t *testing.T) {
	t.Parallel()
	flags := append(writeConfig(t, "tools: {slow: {shell: 'echo begun; exec sleep 600'}}"), "--state",
		t.TempDir())
	w := newWitness(t, programCommand(t, flags...))
	var result mcp.CallToolResult
	w.must(&result, "tools/call", map[string]any{"name": "start_task",
		"arguments": map[string]any{"tool": "slow"}})
	id := rawjson.StringMember(rawjson.Encode(result.Meta[mcp.MetaTask]), "taskId")
	for !strings.Contains(firstTextOf(&result), "begun") {
		w.must(&result, "tools/call", map[string]any{"name": "get_task_result",
			"arguments": map[string]any{"task_id": id, "after": 0, "wait_ms": 50}})
	}
	w.end()
	w = newWitness(t, programCommand(t, flags...))
	w.must(&result, "tools/call", map[string]any{"name": "get_task_result",
		"arguments": map[string]any{"task_id": id}})
	if got := firstTextOf(&result); !strings.HasPrefix(got,
		"begun\nrunnel was stopped, as when the host closes the session; a tool with detach: always goes on\n[failed, ") || !result.IsError {
		t.Errorf("isError %t: %q", result.IsError, got)
	}
	w.end()
}

// A plain call that the end of its session stops can be read by the next session in the same directory, which
// does not know its id, also if a host without tasks cancels it first, as some do when their window is closed.
// Sessions in other directories are not shown it.
func TestAnInterruptedCallIsThereInTheNextSession(t *testing.T) {
	t.Parallel()
	here, state := t.TempDir(), t.TempDir()
	ran := filepath.Join(here, "ran")
	config := writeConfig(t, `tools: {build: {shell: '
  for i in 1 2 3; do echo "[$i/4] compiled"; done; echo > `+ran+`; exec sleep 600'}}`)
	session := func(dir string, plain bool) *witness {
		cmd := programCommand(t, append(config, "--state", state)...)
		cmd.Dir = dir
		return startWitness(&witness{t: t, patience: watchdog, plain: plain}, cmd)
	}
	list := func(w *witness) string {
		var result mcp.CallToolResult
		w.must(&result, "tools/call", map[string]any{"name": "list_tasks"})
		return firstTextOf(&result)
	}
	for n, status := range []string{"failed", "cancelled", "cancelled", "failed"} {
		w := session(here, status == "cancelled")
		request, _ := w.send("tools/call", map[string]any{"name": "build"})
		for deadline := time.Now().Add(watchdog); os.Remove(ran) != nil; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the command did not run")
			}
		}
		if status == "cancelled" {
			w.notify("notifications/cancelled", map[string]any{"requestId": request})
		}
		w.end()

		w = session(here, n%2 == 0)
		text := list(w)
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if len(lines) != n+2 || !strings.Contains(lines[0], "earlier sessions") ||
			!strings.Contains(lines[1], " build "+status) {
			t.Fatalf("list_tasks: %s", text)
		}
		id, _, _ := strings.Cut(lines[1], " ")
		var result mcp.CallToolResult
		arguments := map[string]any{"task_id": id, "after": 0}
		w.must(&result, "tools/call", map[string]any{"name": "get_task_result", "arguments": arguments})
		got := firstTextOf(&result)
		if !result.IsError || !strings.HasPrefix(got, "[1/4] compiled\n[2/4] compiled\n[3/4] compiled\n") {
			t.Errorf("isError %t: %s", result.IsError, got)
		}
		w.end()

		w = session(t.TempDir(), true)
		if text := list(w); !strings.HasPrefix(text, "No tasks of this session.") {
			t.Errorf("elsewhere: %s", text)
		}
		w.end()
	}
}

// A call that a host waits for is seen by people from its start on, and can be cancelled. It counts as no
// task.
func TestACallIsListedWhileItRuns(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	w := newWitness(t, programCommand(t, append(writeConfig(t, `
history: {calls: 0}
tools:
  quick: {command: [echo, quick]}
  slow: {shell: "echo begun; exec sleep 600"}
`), "--state", state, "--max-tasks", "1")...))
	people := func(args ...string) outcome { return people(t, append(args, "--state", state)...) }
	w.must(&mcp.CallToolResult{}, "tools/call", map[string]any{"name": "quick"})
	request, answered := w.send("tools/call", map[string]any{"name": "slow"})
	var listed outcome
	for deadline := time.Now().Add(watchdog); !strings.Contains(listed.stdout,
		"begun"); time.Sleep(20 * time.Millisecond) {
		if listed = people("tasks", "list"); time.Now().After(deadline) {
			t.Fatalf("request %v is not listed: %+v", request, listed)
		}
	}
	listed.is(t, exitFine, `ID .*\n(?P<id>[0-9a-f]{8}) +working +slow .* begun\n`, "")
	id := strings.Fields(strings.Split(listed.stdout, "\n")[1])[0]
	people("tasks", "tail", id).is(t, exitFine, "begun\n", "")
	var tasks mcp.ListTasksResult
	if w.must(&tasks, "tasks/list", map[string]any{}); len(tasks.Tasks) > 0 {
		t.Errorf("a client finds it: %+v", tasks.Tasks)
	}
	var made mcp.CreateTaskResult
	// There is room for one.
	w.must(&made, "tools/call", map[string]any{"name": "quick", "task": map[string]any{}})
	w.must(&mcp.CallToolResult{}, "tasks/result", map[string]any{"taskId": made.Task.TaskID})
	people("tasks", "cancel", id).is(t, exitFine, id+`\S* cancelled\n`, "")
	if a := <-answered; !strings.Contains(string(a.Result), "was cancelled") {
		t.Errorf("the call: %s %+v", a.Result, a.Error)
	}
	people("tasks", "list").is(t, exitFine, `ID .*\n[0-9a-f]{8} +completed +quick .*\n`, "")
	w.end()
}

// runnel call waits for the result of a plain call that was handed over, by the tasks methods of the version.
// A version without them cannot follow: runnel itself hands nothing over then, and of another server the call
// says so.
func TestCallFollowsAHandOver(t *testing.T) {
	t.Parallel()
	config := writeConfig(t, `tools: {slow: {shell: "echo begun; sleep 1; echo done; exit 3", task: forbidden}}`)
	for _, version := range []string{"2025-11-25", "2026-07-28", "2024-11-05", "2025-06-18"} {
		people(t, append(config, "call", "slow", "--protocol", version, "--state", "memory", "--sync-wait",
			"300ms")...).is(t, 3, "begun\ndone\n", `^exit code 3 after [0-9.]+ s\n$`)
	}
	server := programCommand(t, append(config, "serve", "--state", "memory", "--sync-wait", "300ms",
		"--log-level", "error")...).Args
	for range 2 {
		people(t, append([]string{"call", "slow", "--protocol", "2025-06-18", "--"}, server...)...).
			is(t, exitFailure, "(begun\n)?",
				`^runnel: slow takes longer than the server waits: it is still running, as task \S+, which protocol 2025-06-18 cannot follow; `)
	}
}
