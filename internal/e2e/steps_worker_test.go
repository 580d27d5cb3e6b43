package e2e

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"runnel/rpc/mcp"
)

// workedSteps is a config whose steps run on workers, on three levels.
const workedSteps = `
tools:
  mark: {shell: 'echo "$text" >> "$DIR/marked"; echo "$text"', input: {text: {type: string}}}
  part:
    shell: 'echo $$ >> "$DIR/$id-$call"; until [ -e "$DIR/go-$call" ]; do sleep 0.05; done; echo "$id of $call"'
    input: {call: {type: string}, id: {type: string}}
    runs: builds
    retry: 3
  inner:
    input: {call: {type: string}}
    runs: builds
    steps: [{id: part, tool: part, with: {call: "{{call}}", id: inner}}]
  release:
    input: {call: {type: string}}
    runs: builds
    steps:
      - {id: first, tool: mark, with: {text: "{{call}}"}}
      - {id: outer, tool: part, with: {call: "{{call}}", id: outer}, needs: [first]}
      - {id: inner, tool: inner, with: {call: "{{call}}"}, needs: [first]}
      - {id: last, tool: mark, with: {text: "{{steps.outer.output}}, {{steps.inner.output}}"}}
`

// Steps run on a worker, which is killed in the middle, with the front. Another worker goes on, and no step that
// has ended runs again; a cancel reaches the last command.
func TestStepsOnWorkers(t *testing.T) {
	t.Parallel()
	c := newCrew(t, workedSteps)
	front := func() *witness {
		cmd := exec.Command(c.program, c.config...)
		cmd.Env = c.env
		w := newWitness(t, cmd)
		w.patience = 3 * watchdog
		return w
	}
	worker, _ := c.work("one", "--slots", "32")
	w := front()
	var ids []string
	for i := range 4 {
		var created mcp.CreateTaskResult
		w.must(&created, "tools/call", map[string]any{"name": "release", "task": map[string]any{},
			"arguments": map[string]any{"call": fmt.Sprint(i)}})
		ids = append(ids, created.Task.TaskID)
	}
	begun := func(times int) {
		t.Helper()
		for i := range ids {
			for _, id := range []string{"outer", "inner"} {
				c.file(fmt.Sprint(id, "-", i), fmt.Sprintf(`^(\d+\n){%d}$`, times))
			}
		}
	}
	begun(1)
	_ = worker.Process.Kill()
	w.kill()
	c.work("two", "--slots", "32")
	w = front()
	begun(2)
	for i, id := range ids {
		if i >= 2 {
			var task mcp.Task
			w.must(&task, "tasks/cancel", map[string]any{"taskId": id})
			for _, level := range []string{"outer", "inner"} {
				pids := strings.Fields(c.file(fmt.Sprint(level, "-", i), ""))
				pid, err := strconv.Atoi(pids[len(pids)-1])
				if err != nil {
					t.Fatal(err)
				}
				for deadline := time.Now().Add(watchdog); syscall.Kill(pid, 0) == nil; time.Sleep(10 * time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("the command of %s lives after the cancel", level)
					}
				}
			}
			continue
		}
		c.write(fmt.Sprint("go-", i))
		var result mcp.CallToolResult
		w.must(&result, "tasks/result", map[string]any{"taskId": id})
		text, _ := mcp.TextOf(result.Content[len(result.Content)-1])
		if want := fmt.Sprintf("outer of %d, part: completed\n\npart:\ninner of %[1]d\n", i); result.IsError || !strings.Contains(text, want) {
			t.Errorf("%q, not %q", text, want)
		}
	}
	for i := range ids {
		if marked := c.file("marked", ""); strings.Count("\n"+marked, fmt.Sprintf("\n%d\n", i)) != 1 {
			t.Errorf("the first step of call %d did not run once: %q", i, marked)
		}
	}
	w.end()
}
