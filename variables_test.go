package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"runnel/rpc/mcp"
)

// A client and a command read and set a task's variables; they survive the process; what is above the limits changes nothing.
func TestVariables(t *testing.T) {
	t.Parallel()
	flags := append(writeConfig(t, `
tools:
  say: {shell: 'cat "$RUNNEL_VARIABLES"; echo "{\"stage\": \"done\", \"gone\": null}" > "$RUNNEL_VARIABLES"'}
  spoil: {shell: 'echo nonsense > "$RUNNEL_VARIABLES"'}
`), "--selftest", "--state", t.TempDir(), "--fallback-tools", "always")
	w := newWitness(t, programCommand(t, flags...))
	call := func(tool string, arguments any, variables string) answer {
		return w.call("tools/call", map[string]any{"name": tool, "arguments": arguments, "task": map[string]any{},
			"_meta": map[string]any{mcp.MetaVariables: json.RawMessage(variables)}})
	}
	created := func(a answer) string {
		t.Helper()
		var handle mcp.CreateTaskResult
		if err := json.Unmarshal(a.Result, &handle); err != nil {
			t.Fatalf("%v: %+v", err, a.Error)
		}
		return handle.Task.TaskID
	}
	none := map[string]any{}
	id := created(call("say", none, `{"stage":"new","gone":1,"list":[1,{"a":"b"}]}`))
	var result mcp.CallToolResult
	w.must(&result, "tasks/result", map[string]any{"taskId": id})
	if text, _ := mcp.TextOf(result.Content[0]); text != `{"gone":1,"list":[1,{"a":"b"}],"stage":"new"}` {
		t.Errorf("the command read %s", text)
	}
	shows := func(id, want string) {
		t.Helper()
		for method, params := range map[string]any{"tasks/get": map[string]any{"taskId": id}, "tasks/result": map[string]any{"taskId": id},
			"tools/call": map[string]any{"name": "get_task_result", "arguments": map[string]any{"task_id": id}}} {
			if method == "tasks/result" && want == `{"x":1}` {
				continue // the task runs
			}
			var shown struct {
				Meta map[string]json.RawMessage `json:"_meta"`
			}
			w.must(&shown, method, params)
			if got := string(shown.Meta[mcp.MetaVariables]); got != want {
				t.Errorf("%s shows %s, want %s", method, got, want)
			}
		}
	}
	const done = `{"list":[1,{"a":"b"}],"stage":"done"}`
	shows(id, done)

	running := created(w.call("tools/call", map[string]any{"name": "sleep", "task": none, "arguments": map[string]any{"ms": 600_000}}))
	set := func(taskID, patch string) answer {
		return w.call("runnel/tasks/variables", map[string]any{"taskId": taskID, "set": json.RawMessage(patch)})
	}
	if a := set(running, `{"x":1,"y":2}`); a.Error != nil || string(a.Result) != `{"variables":{"x":1,"y":2}}` {
		t.Errorf("set: %s %+v", a.Result, a.Error)
	}
	if a := set(running, `{"y":null}`); a.Error != nil || string(a.Result) != `{"variables":{"x":1}}` {
		t.Errorf("deleted: %s %+v", a.Result, a.Error)
	}
	deep := strings.Repeat(`{"a":`, 11) + "1" + strings.Repeat("}", 11)
	long := fmt.Sprintf(`{"a":%q}`, strings.Repeat("x", 64<<10+1))
	many := fmt.Sprintf(`{"a":[%s]}`, strings.TrimSuffix(strings.Repeat(`"`+strings.Repeat("x", 60<<10)+`",`, 20), ","))
	for name, patch := range map[string]string{"depth": deep, "string": long, "size": many, "list": `[1]`, "number": `1`, "null": `null`} {
		if a := set(running, patch); a.Error == nil || a.Error.Code != -32602 {
			t.Errorf("%s: %s %+v", name, a.Result, a.Error)
		}
		if name != "null" {
			if a := call("say", none, patch); a.Error == nil || a.Error.Code != -32602 {
				t.Errorf("%s in a call: %s %+v", name, a.Result, a.Error)
			}
		}
	}
	shows(running, `{"x":1}`)
	for _, unknown := range []string{"unknown", id} {
		if a := set(unknown, `{"x":1}`); a.Error == nil || a.Error.Code != -32602 {
			t.Errorf("set on %s: %s %+v", unknown, a.Result, a.Error)
		}
	}
	spoiled := created(call("spoil", none, `{"kept":true}`))
	w.must(&result, "tasks/result", map[string]any{"taskId": spoiled})
	if !result.IsError || !strings.Contains(string(result.Content[0]), "variables") {
		t.Errorf("a command that wrote nonsense: %s", result.Content)
	}
	shows(spoiled, `{"kept":true}`)
	w.end()
	w = newWitness(t, programCommand(t, flags...))
	shows(id, done)
	w.end()
}
