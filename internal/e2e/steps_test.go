package e2e

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"runnel/rpc/mcp"
)

// A question of steps waits for days: over the end of runnel, a clock that has moved on, and kill -9. Any
// later client answers it, and the steps before it do not run again. An answer of no skips what depends on
// it.
func TestStepsAskOverRestarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "runnel.yaml")
	if err := os.WriteFile(config, []byte(`
tasks: {maxTtl: 240h}
tools:
  test: {shell: 'echo x >> tested; echo fine'}
  publish: {shell: 'echo "$version" >> published; echo "published $version"', input: {version: {type: string}}}
  release:
    input: {version: {type: string}}
    steps:
      - {id: test, tool: test}
      - {id: ok, ask: "Publish {{version}}? The tests say: {{steps.test.output}}"}
      - {id: publish, tool: publish, with: {version: "{{version}}"}, when: "{{steps.ok.answer}}"}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(t.TempDir(), "state")
	start := func() *witness {
		return newWitness(t, programCommand(t, "--config", config, "--state", state))
	}
	waits := func(w *witness, ids []string) {
		t.Helper()
		for i, id := range ids {
			want := fmt.Sprintf("Publish %d? The tests say: fine", i)
			var task mcp.Task
			for deadline := time.Now().Add(watchdog); ; time.Sleep(10 * time.Millisecond) {
				w.must(&task, "tasks/get", map[string]any{"taskId": id})
				if task.Status == mcp.TaskInputRequired && task.StatusMessage == want {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("%s is %s: %q\n%s", id, task.Status, task.StatusMessage, &w.log)
				}
			}
		}
	}
	w := start()
	var ids []string
	for i := range 2 {
		var created mcp.CreateTaskResult
		w.must(&created, "tools/call", map[string]any{"name": "release", "task": map[string]any{},
			"arguments": map[string]any{"version": fmt.Sprint(i)}})
		ids = append(ids, created.Task.TaskID)
	}
	waits(w, ids)
	w.end()
	const days = 3 * 24 * int64(time.Hour)
	db, err := sql.Open("sqlite", filepath.Join(state, "runnel.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(context.Background(),
		"UPDATE task SET created = created - ?1, updated = updated - ?1, expires = expires - ?1", days); err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
	w = start()
	waits(w, ids)
	w.kill()

	s := answering(t, config, state)
	for i, action := range []string{"accept", "decline"} {
		want := map[string]string{
			"accept":  "test: completed\nok: completed, answered yes\npublish: completed\n\npublish:\npublished 0\n",
			"decline": "test: completed\nok: completed, answered no\npublish: skipped: when: {{steps.ok.answer}} does not hold\n",
		}[action]
		if text := resultOf(t, s, ids[i], fmt.Sprintf("Publish %d?", i), action); text != want {
			t.Errorf("the result is %q", text)
		}
	}
	tested, _ := os.ReadFile(filepath.Join(dir, "tested"))
	published, _ := os.ReadFile(filepath.Join(dir, "published"))
	if string(tested) != "x\nx\n" || string(published) != "0\n" {
		t.Errorf("tested %q, published %q", tested, published)
	}
}

// answering starts runnel with a client whose user can be asked.
func answering(t *testing.T, config, state string) *session {
	t.Helper()
	s := process(t, programCommand(t, "--config", config, "--state", state))
	s.sendLine(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{},"tasks":{}},"clientInfo":{"name":"test","version":"1"}}}`)
	s.line()
	s.sendLine(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return s
}

// resultOf waits for the result of a task, answers the question that comes before it, and returns the text.
func resultOf(t *testing.T, s *session, id, question, action string) string {
	t.Helper()
	s.sendLine(`{"jsonrpc":"2.0","id":"%s","method":"tasks/result","params":{"taskId":"%[1]s"}}`, id)
	for asked := false; ; {
		line, err := s.next(watchdog)
		if err != nil {
			t.Fatal(err)
		}
		var m struct {
			ID     json.RawMessage
			Method string
			Result mcp.CallToolResult
		}
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatal(err)
		}
		if m.Method == "elicitation/create" {
			if asked = true; !strings.Contains(string(line), question) {
				t.Errorf("not %q: %s", question, line)
			}
			s.sendLine(`{"jsonrpc":"2.0","id":%s,"result":{"action":"%s"}}`, m.ID, action)
		}
		if m.Method == "" && string(m.ID) == `"`+id+`"` {
			if !asked {
				t.Errorf("%s has ended without a question: %s", id, line)
				return ""
			}
			if len(m.Result.Content) == 0 {
				t.Fatalf("no result: %s\nstderr:\n%s", line, s.stderr)
			}
			text, _ := mcp.TextOf(m.Result.Content[0])
			return text
		}
	}
}

// A step that was cut off and may not be repeated is a question: with yes it runs again, with no the call
// fails.
func TestStepsCutOff(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "runnel.yaml")
	if err := os.WriteFile(config, []byte(`
tools:
  once: {shell: 'echo x >> begun; while [ ! -e go ]; do sleep 0.02; done; echo done'}
  run: {steps: [{id: a, tool: once}]}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(t.TempDir(), "state")
	w := newWitness(t, programCommand(t, "--config", config, "--state", state))
	var ids []string
	for range 2 {
		var created mcp.CreateTaskResult
		w.must(&created, "tools/call", map[string]any{"name": "run", "task": map[string]any{}})
		ids = append(ids, created.Task.TaskID)
	}
	begun := func() int {
		text, _ := os.ReadFile(filepath.Join(dir, "begun"))
		return strings.Count(string(text), "x")
	}
	for deadline := time.Now().Add(watchdog); begun() < 2; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the steps have not begun")
		}
	}
	w.kill()
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := answering(t, config, state)
	const question = "Step a (once) was cut off while it ran. Run it again?"
	if text := resultOf(t, s, ids[0], question, "decline"); text != "a: failed: it was cut off, and is not to be run again\n" {
		t.Errorf("declined: %q", text)
	}
	if text := resultOf(t, s, ids[1], question, "accept"); text != "a: completed\n\na:\ndone\n" {
		t.Errorf("accepted: %q", text)
	}
	if n := begun(); n != 3 {
		t.Errorf("the step has begun %d times", n)
	}
}

// A step whose input was deleted fails: an output that cannot be read is not taken for an empty one. A person
// cannot delete it while the steps go on.
func TestStepsOutputIsGone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "runnel.yaml")
	if err := os.WriteFile(config, []byte(`
tools:
  say: {command: [echo, said]}
  show: {shell: 'echo "[$x]" >> shown', input: {x: {type: string}}}
  run:
    steps:
      - {id: one, tool: say}
      - {id: ok, ask: "Go on?", needs: [one]}
      - {id: last, tool: show, with: {x: "{{steps.one.output}}"}, when: "{{steps.ok.answer}}"}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(t.TempDir(), "state")
	s := answering(t, config, state)
	for i, deleted := range []bool{true, false} {
		s.sendLine(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"run","task":{}}}`, i+1)
		var created struct{ Result mcp.CreateTaskResult }
		if err := json.Unmarshal(s.line(), &created); err != nil {
			t.Fatal(err)
		}
		id := created.Result.Task.TaskID
		said := ""
		for deadline := time.Now().Add(watchdog); said == ""; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the first step has not ended")
			}
			log := runEmpty(t, []string{"tasks", "tail", id, "--state", state}).stdout
			if strings.Contains(log, "one: completed") {
				_, said, _ = strings.Cut(log, "one: begins as task ")
				said, _, _ = strings.Cut(said, "\n")
			}
		}
		runEmpty(t, []string{"tasks", "rm", said, "--state", state}).is(t, exitFailure, "",
			"task "+said+" was begun by task "+id+" .run, .*, which may read it: .*runnel tasks cancel "+id)
		want := "one: completed\nok: completed, answered yes\nlast: completed\n\nlast:\n\n"
		if deleted {
			want = "one: completed\nok: completed, answered yes\nlast: failed: the output of step one cannot be read: "
			deleteTask(t, state, said)
		}
		if text := resultOf(t, s, id, "Go on?", "accept"); !strings.HasPrefix(text, want) {
			t.Errorf("the result is %q", text)
		}
	}
	if shown, _ := os.ReadFile(filepath.Join(dir, "shown")); string(shown) != "[said]\n" {
		t.Errorf("shown: %q", shown)
	}
}

// deleteTask deletes a task from a state, as damage might.
func deleteTask(t *testing.T, state, id string) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(state, "runnel.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "DELETE FROM task WHERE id = ?", id); err != nil {
		t.Fatal(err)
	}
}

// A hundred runs of steps go on side by side. A cancel ends what runs, and nothing else begins.
func TestStepsSideBySide(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "runnel.yaml")
	if err := os.WriteFile(config, []byte(`
tasks: {maxLive: 1000}
tools:
  say: {command: [echo, "{{what}}"], input: {what: {type: string}}}
  wait: {command: [sleep, "600"]}
  never: {shell: 'touch never'}
  run:
    input: {what: {type: string}}
    steps:
      - {id: a, tool: say, with: {what: "{{what}}"}}
      - {id: b, tool: say, with: {what: "{{steps.a.output}}!"}}
  long: {steps: [{id: one, tool: wait}, {id: two, tool: wait}, {id: last, tool: never, needs: [one]}]}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWitness(t, programCommand(t, "--config", config, "--state", filepath.Join(t.TempDir(), "state")))
	w.patience = 3 * watchdog
	var answers []chan answer
	for i := range 100 {
		answers = append(answers, w.ask("tools/call", map[string]any{"name": "run",
			"arguments": map[string]any{"what": fmt.Sprint("n", i)}}))
	}
	var cancelled []string
	for range 2 {
		var created mcp.CreateTaskResult
		w.must(&created, "tools/call", map[string]any{"name": "long", "task": map[string]any{}})
		cancelled = append(cancelled, created.Task.TaskID)
	}
	for i, answered := range answers {
		select {
		case a := <-answered:
			var result mcp.CallToolResult
			_ = json.Unmarshal(a.Result, &result)
			if want := fmt.Sprintf("a: completed\nb: completed\n\nb:\nn%d!\n", i); len(result.Content) == 0 ||
				!strings.Contains(string(result.Content[0]), fmt.Sprintf("n%d!", i)) {
				t.Errorf("run %d: %s %v, want %q", i, a.Result, a.Error, want)
			}
		case <-time.After(w.patience):
			t.Fatalf("run %d has not ended\n%s", i, &w.log)
		}
	}
	for _, id := range cancelled {
		var log string
		for deadline := time.Now().Add(watchdog); strings.Count(log, "begins as task") < 2; time.Sleep(10 * time.Millisecond) {
			if log = w.output(id); time.Now().After(deadline) {
				t.Fatalf("the steps have not begun: %s", log)
			}
		}
		var task mcp.Task
		w.must(&task, "tasks/cancel", map[string]any{"taskId": id})
		for line := range strings.Lines(log) {
			if _, child, ok := strings.Cut(strings.TrimSpace(line), ": begins as task "); ok {
				for deadline := time.Now().Add(watchdog); task.TaskID != child || !task.Status.Terminal(); time.Sleep(10 * time.Millisecond) {
					if w.must(&task, "tasks/get", map[string]any{"taskId": child}); time.Now().After(deadline) {
						t.Fatalf("a step is %s after the cancel", task.Status)
					}
				}
				if task.Status != mcp.TaskCancelled {
					t.Errorf("a step has ended as %s", task.Status)
				}
			}
		}
	}
	w.end()
	if _, err := os.Stat(filepath.Join(dir, "never")); err == nil {
		t.Error("a step has begun after the cancel")
	}
}
