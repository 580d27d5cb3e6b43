package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"runnel/rpc/mcp"
)

// The tasks of another owner do not exist, in every method of both eras: the answers are byte for byte those
// for tasks that never were.
func TestOthersTasks(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	config := writeConfig(t, `
tools:
  nap: {shell: 'echo dozing; exec sleep 600'}
`)
	serve := func(owner string) *witness {
		return newWitness(t, programCommand(t,
			append(config, "--selftest", "--state", dir, "--owner", owner, "--fallback-tools", "always",
				"--immediate-wait", "1ms")...))
	}
	alice, bob := serve("alice"), serve("bob")
	start := func(w *witness, tool string, arguments map[string]any) string {
		var created mcp.CreateTaskResult
		w.must(&created, "tools/call",
			map[string]any{"name": tool, "arguments": arguments, "task": map[string]any{},
				"_meta": map[string]any{mcp.MetaVariables: map[string]any{"of": "alice"}}})
		return created.Task.TaskID
	}
	const unknown = "00000000-0000-4000-8000-000000000000"
	ended := start(alice, "echo", map[string]any{"text": "secret"})
	alice.must(&mcp.CallToolResult{}, "tasks/result", map[string]any{"taskId": ended})
	foreign := map[string]string{"ended": ended, "running": start(alice, "nap", map[string]any{})}
	gone := serve("alice") // killed: its task is recovered by bob's process, and is not bob's for that
	foreign["recovered"] = start(gone, "nap", map[string]any{})
	gone.kill()

	era := func(members string) json.RawMessage { return json.RawMessage(inEra(takes, "", members)) }
	for _, c := range []struct{ method, params, eraParams string }{
		{"tasks/get", `{"taskId":"ID"}`, `"taskId":"ID"`},
		{"tasks/result", `{"taskId":"ID"}`, ""},
		{"tasks/result", `{"taskId":"ID","lastSeqNr":1}`, ""},
		{"tasks/cancel", `{"taskId":"ID"}`, `"taskId":"ID"`},
		{"tasks/update", "", `"taskId":"ID","inputResponses":{"question-1":{"action":"accept"}}`},
		{"runnel/tasks/variables", `{"taskId":"ID","set":{"a":1}}`, `"taskId":"ID","set":{"a":1}`},
		{"runnel/tasks/variables", `{"taskId":"ID"}`, `"taskId":"ID"`},
		{"resources/read", `{"uri":"runnel://tasks/ID/log"}`, `"uri":"runnel://tasks/ID/log"`},
		{"resources/read", `{"uri":"runnel://tasks/ID/log?after=1"}`,
			`"uri":"runnel://tasks/ID/log?after=1"`},
		{"resources/subscribe", `{"uri":"runnel://tasks/ID/log"}`, ""},
		{"resources/unsubscribe", `{"uri":"runnel://tasks/ID/log"}`, ""},
		{"tools/call", `{"name":"get_task_result","arguments":{"task_id":"ID"}}`,
			`"name":"get_task_result","arguments":{"task_id":"ID"}`},
		{"tools/call", `{"name":"get_task_result","arguments":{"task_id":"ID","wait_ms":100}}`, ""},
		{"tools/call", `{"name":"cancel_task","arguments":{"task_id":"ID"}}`,
			`"name":"cancel_task","arguments":{"task_id":"ID"}`},
	} {
		for name, params := range map[string]json.RawMessage{"handshake": json.RawMessage(c.params),
			"stateless": era(c.eraParams)} {
			if name == "handshake" && c.params == "" || name == "stateless" && c.eraParams == "" {
				continue
			}
			ask := func(id string) string {
				a := bob.call(c.method, json.RawMessage(strings.ReplaceAll(string(params), "ID", id)))
				said, err := json.Marshal(a)
				if err != nil {
					t.Fatal(err)
				}
				return strings.ReplaceAll(string(said), id, "ID")
			}
			want := ask(unknown)
			if c.method != "resources/unsubscribe" && !strings.Contains(want, "unknown or has expired") {
				t.Errorf("%s, %s: %s", name, c.method, want)
			}
			for state, id := range foreign {
				if got := ask(id); got != want {
					t.Errorf("%s, %s %s of another's %s task:\n%s\nof what never was:\n%s", name, c.method,
						c.params, state, got, want)
				}
			}
		}
	}

	// Lists of bob, who has nothing.
	for _, c := range []struct {
		method string
		params json.RawMessage
	}{
		{"tasks/list", json.RawMessage(`{}`)},
		{"resources/list", json.RawMessage(`{}`)},
		{"resources/list", era("")},
		{"resources/templates/list", json.RawMessage(`{}`)},
		{"resources/templates/list", era("")},
		{"tools/call", json.RawMessage(`{"name":"list_tasks","arguments":{}}`)},
		{"tools/call", era(`"name":"list_tasks","arguments":{}`)},
		{"tools/call", json.RawMessage(`{"name":"list_tasks","arguments":{"all":true}}`)},
	} {
		a := bob.call(c.method, c.params)
		said := string(a.Result)
		if a.Error != nil || strings.Contains(said, "alice") || strings.Contains(said, "nextCursor") {
			t.Errorf("%s: %s %+v", c.method, said, a.Error)
		}
		for state, id := range foreign {
			if strings.Contains(said, id) {
				t.Errorf("%s shows another's %s task: %s", c.method, state, said)
			}
		}
	}

	// A subscription to it is acknowledged without it, and tells nothing.
	for state, id := range foreign {
		listen := func(id string) string {
			request, _ := bob.send("subscriptions/listen",
				era(fmt.Sprintf(`"notifications":{"taskIds":[%q],"resourceSubscriptions":["runnel://tasks/%s/log"]}`, id, id)))
			said := bob.acknowledged(request)
			bob.notify("notifications/cancelled", map[string]any{"requestId": request})
			return said
		}
		if got, want := listen(id), listen(unknown); got != want || strings.Contains(got, "task") {
			t.Errorf("subscription to another's %s task:\n%s\nto what never was:\n%s", state, got, want)
		}
	}

	// Nothing of it was changed, and nothing was told.
	alice.must(&mcp.Task{}, "ping", map[string]any{})
	for state, want := range map[string]mcp.TaskStatus{"ended": mcp.TaskCompleted, "running": mcp.TaskWorking,
		"recovered": mcp.TaskFailed} {
		var task mcp.Task
		alice.must(&task, "tasks/get", map[string]any{"taskId": foreign[state]})
		variables, err := json.Marshal(task.Meta[mcp.MetaVariables])
		if err != nil || task.Status != want || string(variables) != `{"of":"alice"}` {
			t.Errorf("the %s task: %s, variables %s", state, task.Status, variables)
		}
		id := foreign[state]
		if _, told := bob.statuses[id]; told || bob.partialsOf(id) > 0 ||
			bob.count("runnel://tasks/"+id+"/log") > 0 {
			t.Errorf("bob was told of the %s task", state)
		}
	}
	alice.end()
	bob.end()
	if strings.Contains(bob.log.String(), "secret") {
		t.Errorf("bob's log:\n%s", &bob.log)
	}
}

// A cursor says nothing of how many tasks others have, and one of somebody else's list is none.
func TestOthersCursors(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	page := func(owner string, tasks int) (w *witness, cursor string) {
		w = newWitness(t, programCommand(t, "--selftest", "--state", dir, "--owner", owner,
			"--max-tasks", "1000"))
		for range tasks {
			w.must(&mcp.CreateTaskResult{}, "tools/call",
				map[string]any{"name": "echo", "arguments": map[string]any{"text": "x"},
					"task": map[string]any{}})
		}
		var list mcp.ListTasksResult
		w.must(&list, "tasks/list", map[string]any{})
		return w, list.NextCursor
	}
	alice, first := page("alice", 60)
	bob, second := page("bob", 60)
	defer alice.end()
	defer bob.end()
	if len(first) < 16 || len(second) != len(first) || first == second {
		t.Errorf("cursors %q, %q", first, second)
	}
	var rest mcp.ListTasksResult
	bob.must(&rest, "tasks/list", map[string]any{"cursor": second})
	if len(rest.Tasks) != 10 || rest.NextCursor != "" {
		t.Errorf("second page: %+v", rest)
	}
	for _, cursor := range []string{first, "1", "nonsense", strings.Repeat("a", len(first))} {
		a := bob.call("tasks/list", map[string]any{"cursor": cursor})
		if a.Error == nil || a.Error.Code != mcp.CodeInvalidParams ||
			!strings.Contains(a.Error.Message, "invalid cursor") {
			t.Errorf("%q: %s %+v", cursor, a.Result, a.Error)
		}
	}
}

// Limits hold for an owner over all processes, and for no other; each refusal names its limit and the number.
func TestLimitsOfAnOwner(t *testing.T) {
	t.Parallel()
	refused := func(a answer, names ...string) {
		t.Helper()
		if a.Error == nil {
			t.Errorf("not refused: %s", a.Result)
			return
		}
		for _, name := range names {
			if !strings.Contains(a.Error.Message, name) {
				t.Errorf("%q does not name %s", a.Error.Message, name)
			}
		}
	}
	start := func(w *witness) answer {
		return w.call("tools/call", map[string]any{"name": "sleep",
			"arguments": map[string]any{"ms": 600_000}, "task": map[string]any{}})
	}
	eraCall := func(w *witness, tool string) answer {
		return w.call("tools/call", json.RawMessage(inEra(takes, "",
			fmt.Sprintf(`"name":%q,"arguments":{}`, tool))))
	}
	serve := func(config string, flags ...string) *witness {
		return newWitness(t, programCommand(t,
			append(append(writeConfig(t, config), "--selftest"), flags...)...))
	}

	t.Run("live", func(t *testing.T) {
		t.Parallel()
		flags := []string{"--state", t.TempDir(), "--fallback-tools", "always"}
		config := "tasks: {maxLive: 2}\ntools:\n  must: {command: [sleep, '600'], task: required}"
		a := serve(config, flags...)
		b := serve(config, flags...)
		other := serve(config, append(flags, "--owner", "other")...)
		var first mcp.CreateTaskResult
		if err := json.Unmarshal(start(a).Result, &first); err != nil {
			t.Fatal(err)
		}
		start(b)
		for _, w := range []*witness{a, b} {
			refused(start(w), "2", "tasks.maxLive")
			refused(eraCall(w, "must"), "2", "tasks.maxLive")
			result := w.call("tools/call",
				map[string]any{"name": "start_task",
					"arguments": map[string]any{"tool": "sleep", "arguments": map[string]any{"ms": 1}}})
			if said := string(result.Result); !strings.Contains(said, "tasks.maxLive") ||
				!strings.Contains(said, `"isError":true`) {
				t.Errorf("start_task: %s %+v", said, result.Error)
			}
		}
		if a := start(other); a.Error != nil {
			t.Errorf("another owner: %+v", a.Error)
		}
		a.must(&mcp.Task{}, "tasks/cancel", map[string]any{"taskId": first.Task.TaskID})
		if again := start(b); again.Error != nil {
			t.Errorf("with room again: %+v", again.Error)
		}
	})
	t.Run("starts", func(t *testing.T) {
		t.Parallel()
		flags := []string{"--state", t.TempDir()}
		const config = "tasks: {maxStartsPerMinute: 3}\ntools:\n  must: {command: [sleep, '600'], task: required}"
		a := serve(config, flags...)
		b := serve(config, flags...)
		other := serve(config, append(flags, "--owner", "other")...)
		for _, w := range []*witness{a, b, a} {
			if got := start(w); got.Error != nil {
				t.Fatalf("%+v", got.Error)
			}
		}
		for _, w := range []*witness{a, b} {
			refused(start(w), "3 a minute", "tasks.maxStartsPerMinute")
			refused(eraCall(w, "must"), "3 a minute", "tasks.maxStartsPerMinute")
		}
		if got := start(other); got.Error != nil {
			t.Errorf("another owner: %+v", got.Error)
		}
	})
	t.Run("requests", func(t *testing.T) {
		t.Parallel()
		const config = "tasks: {maxRequestsPerSecond: 4}"
		for era, params := range map[string]json.RawMessage{"handshake": json.RawMessage(`{"taskId":"x"}`),
			"stateless": json.RawMessage(inEra(takes, "", `"taskId":"x"`))} {
			w := serve(config)
			var answers []chan answer
			for range 100 { // faster than they are allowed, on any machine
				answers = append(answers, w.ask("tasks/get", params))
			}
			limited := 0
			for _, c := range answers {
				select {
				case a := <-c:
					if a.Error != nil && a.Error.Code == mcp.CodeInternalError {
						limited++
						refused(a, "4 a second", "tasks.maxRequestsPerSecond")
					}
				case <-time.After(watchdog):
					t.Fatalf("no answer\n%s", &w.log)
				}
			}
			if limited == 0 {
				t.Errorf("%s: none of 100 requests is refused", era)
			}
			w.must(&struct{}{}, "ping", map[string]any{}) // no task method
		}
	})
}
