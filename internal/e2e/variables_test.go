package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"runnel/rpc/mcp"
)

// A client and a command read and set a task's variables; they survive the process; what is above the limits
// changes nothing.
func TestVariables(t *testing.T) {
	t.Parallel()
	flags := append(writeConfig(t, `
tools:
  say: {shell: 'cat "$RUNNEL_VARIABLES"; echo "{\"stage\": \"done\", \"gone\": null}" > "$RUNNEL_VARIABLES"'}
  spoil: {shell: 'echo nonsense > "$RUNNEL_VARIABLES"'}
`), "--selftest", "--state", t.TempDir(), "--fallback-tools", "always")
	w := newWitness(t, programCommand(t, flags...))
	call := func(tool string, arguments any, variables string) answer {
		return w.call("tools/call", map[string]any{"name": tool, "arguments": arguments,
			"task":  map[string]any{},
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
		for method, params := range map[string]any{"tasks/get": map[string]any{"taskId": id},
			"tasks/result": map[string]any{"taskId": id},
			"tools/call": map[string]any{"name": "get_task_result",
				"arguments": map[string]any{"task_id": id}}} {
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

	running := created(w.call("tools/call",
		map[string]any{"name": "sleep", "task": none, "arguments": map[string]any{"ms": 600_000}}))
	set := func(taskID, patch string) answer {
		return w.call("runnel/tasks/variables",
			map[string]any{"taskId": taskID, "set": json.RawMessage(patch)})
	}
	if a := set(running, `{"x":1,"y":[{},[],{},[],{},[],1e999]}`); a.Error != nil ||
		string(a.Result) != `{"variables":{"x":1,"y":[{},[],{},[],{},[],1e999]}}` {
		t.Errorf("set: %s %+v", a.Result, a.Error)
	}
	if a := set(running, `{"y":null}`); a.Error != nil || string(a.Result) != `{"variables":{"x":1}}` {
		t.Errorf("deleted: %s %+v", a.Result, a.Error)
	}
	deep := strings.Repeat(`{"a":`, 11) + "1" + strings.Repeat("}", 11)
	long := fmt.Sprintf(`{"a":%q}`, strings.Repeat("x", 64<<10+1))
	many := fmt.Sprintf(`{"a":[%s]}`,
		strings.TrimSuffix(strings.Repeat(`"`+strings.Repeat("x", 60<<10)+`",`, 20), ","))
	for name, patch := range map[string]string{"depth": deep, "string": long, "size": many, "list": `[1]`,
		"number": `1`, "null": `null`} {
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
	if !result.IsError || !strings.Contains(string(result.Content[0]),
		`are not taken: the variables are not a JSON object"`) {
		t.Errorf("a command that wrote nonsense: %s", result.Content)
	}
	shows(spoiled, `{"kept":true}`)
	w.end()
	w = newWitness(t, programCommand(t, flags...))
	shows(id, done)
	w.end()
}

// Variables may be as long as a line may be. Where there is no room for them beside the rest of an answer, a
// mark says how long they are; runnel/tasks/variables and tasks/get show them. (The witness checks the length
// of each line.)
func TestLargeVariables(t *testing.T) {
	t.Parallel()
	w := newWitness(t, programCommand(t, append(writeConfig(t, `
tools:
  much: {shell: 'head -c 900000 /dev/zero | tr "\0" x', maxResult: 850KiB}
`), "--selftest", "--state", t.TempDir(), "--fallback-tools", "always", "--immediate-wait", "1ms")...))
	// JSON of some size, encoded, in strings that are short enough. "<" takes six bytes as it is stored.
	variables := func(size int) json.RawMessage {
		var b strings.Builder
		for b.WriteString(`{"a":["<"`); b.Len()+60<<10 < size; {
			fmt.Fprintf(&b, `,"%s"`, strings.Repeat("x", 50<<10))
		}
		fmt.Fprintf(&b, `,"%s"]}`, strings.Repeat("x", size-b.Len()-len(`,"\u003c"]}`)+1))
		return json.RawMessage(b.String())
	}
	era := func(members string) json.RawMessage { return json.RawMessage(inEra(takes, "", members)) }
	meta := func(a answer) (v struct {
		Variables json.RawMessage
		Meta      struct {
			Variables json.RawMessage `json:"runnel/variables"`
			Bytes     int             `json:"runnel/variablesBytes"`
		} `json:"_meta"`
	}) {
		t.Helper()
		if a.Error != nil {
			t.Fatalf("%d %s", a.Error.Code, a.Error.Message)
		}
		if err := json.Unmarshal(a.Result, &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, c := range []struct {
		size                           int
		refused, shown, shownInResults bool
	}{
		{size: 10 << 10, shown: true, shownInResults: true},
		{size: 980 << 10, shown: true},
		{size: 1 << 20},
		{size: 1<<20 + 1, refused: true},
	} {
		t.Run(fmt.Sprint(c.size), func(t *testing.T) {
			a := w.call("tools/call", map[string]any{"name": "much", "arguments": map[string]any{},
				"task":  map[string]any{},
				"_meta": map[string]any{mcp.MetaVariables: variables(c.size)}})
			if c.refused {
				if a.Error == nil || a.Error.Code != mcp.CodeInvalidParams ||
					!strings.Contains(a.Error.Message, "1048576") {
					t.Errorf("%.200s %+v", a.Result, a.Error)
				}
				return
			}
			var created mcp.CreateTaskResult
			if err := json.Unmarshal(a.Result, &created); err != nil {
				t.Fatalf("%v %+v", err, a.Error)
			}
			id := created.Task.TaskID
			// A result is there first: what is asked for then stands beside it.
			result := meta(w.call("tasks/result", map[string]any{"taskId": id}))
			check := func(what string, variables json.RawMessage, bytes int, shown bool) {
				t.Helper()
				if shown && len(variables) < c.size-8 || !shown && (variables != nil || bytes != c.size) {
					t.Errorf("%s: %d bytes are shown, %d are said", what, len(variables), bytes)
				}
			}
			check("tasks/result", result.Meta.Variables, result.Meta.Bytes, c.shownInResults)
			v := meta(w.call("tools/call",
				map[string]any{"name": "get_task_result", "arguments": map[string]any{"task_id": id}}))
			check("get_task_result", v.Meta.Variables, v.Meta.Bytes, c.shownInResults)
			v = meta(w.call("tasks/get", map[string]any{"taskId": id}))
			check("tasks/get", v.Meta.Variables, v.Meta.Bytes, c.shown)
			v = meta(w.call("tasks/get", era(`"taskId":"`+id+`"`)))
			check("tasks/get, stateless", v.Meta.Variables, v.Meta.Bytes, c.shownInResults)
			v = meta(w.call("runnel/tasks/variables", map[string]any{"taskId": id}))
			check("runnel/tasks/variables", v.Variables, v.Meta.Bytes, c.shown)
			v = meta(w.call("runnel/tasks/variables", era(`"taskId":"`+id+`"`)))
			check("runnel/tasks/variables, stateless", v.Variables, v.Meta.Bytes, c.shown)
		})
	}
	w.end()
}
