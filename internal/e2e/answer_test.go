package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"runnel/rpc/mcp"
)

// A person answers the question of a task from a terminal, whichever runnel runs it: one of steps, which has
// no client, and one that is with its client at the same time.
func TestTasksAnswer(t *testing.T) {
	t.Parallel()
	dir, state := t.TempDir(), "RUNNEL_STATE="+t.TempDir()
	config := filepath.Join(dir, "runnel.yaml")
	text := `selftest: true
tools:
  release: {steps: [{id: ok, ask: 'Publish it?'}]}
  deploy: {command: [echo, deployed], confirm: 'Deploy it?'}
`
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := programCommand(t, "--config", config)
	cmd.Env = append(cmd.Env, state)
	w := &witness{t: t, patience: watchdog, asked: true} // its user does not answer
	w = startWitness(w, cmd)
	start := func(tool string, arguments map[string]any) (id string) {
		t.Helper()
		var made mcp.CreateTaskResult
		w.must(&made, "tools/call", map[string]any{"name": tool, "arguments": arguments, "task": map[string]any{}})
		id = made.Task.TaskID
		for deadline := time.Now().Add(watchdog); ; time.Sleep(10 * time.Millisecond) {
			var task mcp.Task
			if w.must(&task, "tasks/get", map[string]any{"taskId": id}); task.Status == mcp.TaskInputRequired {
				return id
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s does not ask", tool)
			}
		}
	}
	answer := func(arguments ...string) outcome {
		return runEmpty(t, append([]string{"tasks", "answer"}, arguments...), state)
	}
	result := func(id string) string {
		t.Helper()
		var r mcp.CallToolResult
		w.must(&r, "tasks/result", map[string]any{"taskId": id})
		said, _ := mcp.TextOf(r.Content[0])
		return said
	}
	for said, want := range map[string]string{"yes": "ok: completed, answered yes", "no": "ok: completed, answered no"} {
		id := start("release", nil)
		// The status is sent before it is stored.
		for deadline := time.Now().Add(watchdog); ; time.Sleep(10 * time.Millisecond) {
			list := runEmpty(t, []string{"tasks", "list", "--running"}, state)
			if strings.Contains(list.stdout, "(runnel tasks answer "+id[:8]+") Publish it?") {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("the list does not say how to answer: %s", list.stdout)
			}
		}
		answer(id).is(t, exitUsage, "", "asks: Publish it[?]\nthere is no terminal here .*: add yes or no\n")
		answer(id, "perhaps").is(t, exitUsage, "", "none of yes, no and a JSON object")
		answer(id, "{perhaps").is(t, exitUsage, "", "none of yes, no and a JSON object")
		answer(id, said).is(t, exitFine, ".* answered: .*", "")
		if got := result(id); !strings.Contains(got, want) {
			t.Errorf("%s: %s", said, got)
		}
		answer(id, said).is(t, exitFailure, "", "has ended")
	}
	for range 2 {
		id := start("ask", map[string]any{"message": "Which colour?"})
		answer(id[:8]).is(t, exitUsage, "", "Which colour[?]\n.*: add a JSON object with its fields, or no:\n  answer")
		answer(id, "yes").is(t, exitFailure, "", `field "answer" is missing: a string; it is a JSON object with these fields, or no:\n  answer`)
		answer(id, `{"answer": 1}`).is(t, exitFailure, "", `field "answer" must be a string`)
		answer(id, `{"answer": "blue"}`).is(t, exitFine, ".* answered: accept\n", "")
		if got := result(id); got != "accepted: blue" {
			t.Error(got)
		}
	}
	for said, want := range map[string]string{"yes": "deployed\n", "no": "not run: the user declined"} {
		id := start("deploy", nil)
		answer(id, said).is(t, exitFine, ".* answered: .*", "")
		if got := result(id); got != want {
			t.Errorf("%s: %q", said, got)
		}
	}
	w.end()
}
