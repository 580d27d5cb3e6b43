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

// A question of steps waits for days: over the end of runnel, a clock that has moved on, and kill -9. Any later
// client answers it, and the steps before it do not run again. An answer of no skips what depends on it.
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

	s := process(t, programCommand(t, "--config", config, "--state", state))
	s.sendLine(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{},"tasks":{}},"clientInfo":{"name":"test","version":"1"}}}`)
	s.line()
	s.sendLine(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for i, action := range []string{"accept", "decline"} {
		s.sendLine(`{"jsonrpc":"2.0","id":%d,"method":"tasks/result","params":{"taskId":"%s"}}`, i+1, ids[i])
		for {
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
				if !strings.Contains(string(line), fmt.Sprintf("Publish %d?", i)) {
					t.Errorf("%s", line)
				}
				s.sendLine(`{"jsonrpc":"2.0","id":%s,"result":{"action":"%s"}}`, m.ID, action)
			}
			if string(m.ID) != fmt.Sprint(i+1) || m.Method != "" {
				continue
			}
			text, _ := mcp.TextOf(m.Result.Content[0])
			want := map[string]string{
				"accept":  "test: completed\nok: completed, answered yes\npublish: completed\n\npublish:\npublished 0\n",
				"decline": "test: completed\nok: completed, answered no\npublish: skipped: when: {{steps.ok.answer}} does not hold\n",
			}[action]
			if text != want {
				t.Errorf("the result is %q", text)
			}
			break
		}
	}
	tested, _ := os.ReadFile(filepath.Join(dir, "tested"))
	published, _ := os.ReadFile(filepath.Join(dir, "published"))
	if string(tested) != "x\nx\n" || string(published) != "0\n" {
		t.Errorf("tested %q, published %q", tested, published)
	}
}
