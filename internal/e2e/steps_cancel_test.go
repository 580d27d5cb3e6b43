package e2e

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"runnel/rpc/mcp"
)

// begunBy returns the tasks that the log of steps names, by step, once there are so many.
func begunBy(t *testing.T, w *witness, id string, count int) map[string]string {
	t.Helper()
	for deadline := time.Now().Add(watchdog); ; time.Sleep(10 * time.Millisecond) {
		begun := map[string]string{}
		for line := range strings.Lines(w.output(id)) {
			if step, child, ok := strings.Cut(strings.TrimSpace(line), ": begins as task "); ok {
				begun[step] = child
			}
		}
		if len(begun) >= count {
			return begun
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d steps have begun, not %d\n%s", len(begun), count, &w.log)
		}
	}
}

// statusBecomes waits until a task has a status.
func statusBecomes(t *testing.T, w *witness, id string, want mcp.TaskStatus) {
	t.Helper()
	var task mcp.Task
	for deadline := time.Now().Add(watchdog); ; time.Sleep(10 * time.Millisecond) {
		if w.must(&task, "tasks/get", map[string]any{"taskId": id}); task.Status == want {
			return
		}
		if task.Status.Terminal() || time.Now().After(deadline) {
			t.Fatalf("%s is %s, not %s: %q\n%s", id, task.Status, want, task.StatusMessage, &w.log)
		}
	}
}

// A cancel of steps that no runnel runs reaches what they have begun and what lives on: a detached command,
// and steps that another runnel would go on with. Steps whose task above them is lost do not go on.
func TestStepsCancelledWhileLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "runnel.yaml")
	if err := os.WriteFile(config, []byte(`
tools:
  long: {shell: 'echo x >> begun; exec sleep 600', detach: always}
  inner: {steps: [{id: deep, tool: long}, {id: ok, ask: "Go on?"}]}
  run: {steps: [{id: a, tool: long}, {id: b, tool: inner}]}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(t.TempDir(), "state")
	start := func() *witness {
		return newWitness(t, programCommand(t, "--config", config, "--state", state))
	}
	w := start()
	var ids []string
	var begun, deep []map[string]string
	for i := range 3 {
		var created mcp.CreateTaskResult
		w.must(&created, "tools/call", map[string]any{"name": "run", "task": map[string]any{}})
		ids = append(ids, created.Task.TaskID)
		begun = append(begun, begunBy(t, w, ids[i], 2))
		deep = append(deep, begunBy(t, w, begun[i]["b"], 1))
		statusBecomes(t, w, begun[i]["b"], mcp.TaskInputRequired)
	}
	for deadline := time.Now().Add(watchdog); ; time.Sleep(10 * time.Millisecond) {
		if text, _ := os.ReadFile(filepath.Join(dir, "begun")); strings.Count(string(text), "x") == 6 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the detached commands have not begun")
		}
	}
	w.kill()
	for _, id := range ids[:2] {
		if got := runEmpty(t, []string{"tasks", "cancel", id, "--state", state}); got.code != exitFine {
			t.Errorf("%+v", got)
		}
	}
	db, err := sql.Open("sqlite", filepath.Join(state, "runnel.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(context.Background(), "DELETE FROM task WHERE id = ?", ids[2]); err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
	w = start()
	for i := range 3 {
		if i < 2 {
			statusBecomes(t, w, begun[i]["a"], mcp.TaskCancelled)
		}
		statusBecomes(t, w, begun[i]["b"], mcp.TaskCancelled)
		statusBecomes(t, w, deep[i]["deep"], mcp.TaskCancelled)
	}
	var task mcp.Task
	w.must(&task, "tasks/cancel", map[string]any{"taskId": begun[2]["a"]}) // its steps are lost
	w.end()
}
