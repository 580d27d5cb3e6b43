package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
)

// A client whose user cannot be asked is answered as soon as steps have a question, however long it would wait
// for a result: with the question, the command that answers it, and how to go on.
func TestStepsAskWhoCannotBeAsked(t *testing.T) {
	t.Parallel()
	const config = `
tools:
  publish: {shell: 'echo "published $version"', input: {version: {type: string}}}
  release:
    input: {version: {type: string}}
    steps:
      - {id: ok, ask: "Publish {{version}}?"}
      - {id: publish, tool: publish, with: {version: "{{version}}"}, when: "{{steps.ok.answer}}"}
`
	for _, c := range []struct {
		name, capabilities string
		stateless          bool
	}{
		{name: "no elicitation"},
		{name: "elicitation that fails", capabilities: `"elicitation":{}`},
		{name: "stateless", stateless: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "runnel.yaml")
			if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			state := filepath.Join(t.TempDir(), "state")
			s := process(t, programCommand(t, "--config", file, "--state", state, "--sync-wait", "1h"))
			if !c.stateless {
				s.sendLine(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{%s},"clientInfo":{"name":"test","version":"1"}}}`, c.capabilities)
				s.line()
				s.sendLine(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			}
			call := func(id int, tool, arguments string) string {
				params := fmt.Sprintf(`"name":%q,"arguments":%s`, tool, arguments)
				if c.stateless {
					params = inEra("", "", params)
				} else {
					params = "{" + params + "}"
				}
				s.sendLine(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, id, params)
				for {
					line := s.line()
					var m struct {
						ID     json.RawMessage
						Method string
						Result mcp.CallToolResult
					}
					if err := json.Unmarshal(line, &m); err != nil {
						t.Fatal(err)
					}
					switch {
					case m.Method == "elicitation/create":
						s.sendLine(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"there is no terminal"}}`, m.ID)
					case m.Method == "" && string(m.ID) == fmt.Sprint(id):
						var said strings.Builder
						for _, block := range m.Result.Content {
							text, _ := mcp.TextOf(block)
							said.WriteString(text)
						}
						if said.Len() == 0 {
							t.Fatalf("%s", line)
						}
						return said.String()
					}
				}
			}
			answers := []string{"yes", "no"}
			for i := range answers {
				question := fmt.Sprintf("Publish %d?", i)
				said := call(10*i+1, "release", fmt.Sprintf(`{"version":"%d"}`, i))
				id := taskID(said)
				for _, want := range []string{`release waits for its user to answer "` + question + `"`, "as task " + id,
					"runnel tasks answer " + id, `get_task_result with {"task_id": "` + id + `"}`} {
					if !strings.Contains(said, want) {
						t.Errorf("no %q: %s", want, said)
					}
				}
				arguments := fmt.Sprintf(`{"task_id":%q,"wait_ms":0}`, id)
				want := fmt.Sprintf("[waits for its user to answer %q, in a terminal with: runnel tasks answer %s; then call get_task_result again]", question, id)
				if said = call(10*i+2, "get_task_result", arguments); !strings.HasSuffix(said, want) {
					t.Errorf("no %q: %s", want, said)
				}
				answer := runClient(t, "", "tasks", "answer", id[:8], answers[i], "--state", state)
				if answer.code != exitFine || !strings.HasPrefix(answer.stdout, id+" answered: ") {
					t.Errorf("%+v", answer)
				}
				want = map[string]string{"yes": fmt.Sprintf("published %d", i), "no": "publish: skipped"}[answers[i]]
				arguments = fmt.Sprintf(`{"task_id":%q,"wait_ms":45000}`, id)
				if said = call(10*i+3, "get_task_result", arguments); !strings.Contains(said, want) {
					t.Errorf("no %q: %s", want, said)
				}
			}
		})
	}
}

// A client with tasks whose user cannot be asked gets a task: its status message has the command that answers,
// and no question that this client has not declared. A question that ends with its call is an error that says
// what the user can do.
func TestStepsAskATaskClientThatCannot(t *testing.T) {
	t.Parallel()
	file, state := filepath.Join(t.TempDir(), "runnel.yaml"), filepath.Join(t.TempDir(), "state")
	const config = `
tools:
  release: {steps: [{id: ok, ask: "Publish it?"}]}
  deploy: {command: [echo, deployed], confirm: "Deploy it?"}
`
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s := process(t, programCommand(t, "--config", file, "--state", state))
	const takesTasks = `"extensions":{"io.modelcontextprotocol/tasks":{}}`
	type response struct {
		Result mcp.DetailedTask
		Error  *rpc.Error
	}
	sent := 0
	request := func(method, members string) (r response, line []byte) {
		sent++
		s.sendLine(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, sent, method, inEra(takesTasks, "", members))
		line = s.line()
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		return r, line
	}
	for said, want := range map[string]string{"yes": "answered yes", "no": "answered no"} {
		called, line := request("tools/call", `"name":"release","arguments":{}`)
		id := called.Result.TaskID
		if called.Result.ResultType != mcp.ResultTask {
			t.Fatalf("%s", line)
		}
		get := func(wanted func(line string) bool) {
			t.Helper()
			for deadline := time.Now().Add(watchdog); ; time.Sleep(10 * time.Millisecond) {
				_, line := request("tasks/get", fmt.Sprintf(`"taskId":%q`, id))
				if strings.Contains(string(line), "inputRequests") {
					t.Errorf("%s", line)
				}
				if wanted(string(line)) {
					return
				}
				if time.Now().After(deadline) {
					t.Fatalf("%s", line)
				}
			}
		}
		get(func(line string) bool {
			return strings.Contains(line, `"status":"working","statusMessage":"waits for its user to answer \"Publish it?\", in a terminal with: runnel tasks answer `+id)
		})
		if got := runClient(t, "", "tasks", "answer", id, said, "--state", state); got.code != exitFine {
			t.Errorf("%+v", got)
		}
		get(func(line string) bool {
			return strings.Contains(line, `"status":"completed"`) && strings.Contains(line, want)
		})
		refused, line := request("tools/call", `"name":"deploy","arguments":{}`)
		if refused.Error == nil || refused.Error.Code != mcp.CodeMissingCapability ||
			!strings.Contains(refused.Error.Message, "the user can run it in a terminal: runnel call deploy") {
			t.Errorf("%s", line)
		}
	}
}

// Steps that were answered while no runnel runs them say so: they do not ask once more.
func TestStepsAnsweredWhileLeft(t *testing.T) {
	t.Parallel()
	file, state := filepath.Join(t.TempDir(), "runnel.yaml"), filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(file, []byte("tools: {release: {steps: [{id: ok, ask: 'Publish it?'}]}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWitness(t, programCommand(t, "--config", file, "--state", state))
	var ids []string
	for range 2 {
		var made mcp.CreateTaskResult
		w.must(&made, "tools/call", map[string]any{"name": "release", "task": map[string]any{}})
		statusBecomes(t, w, made.Task.TaskID, mcp.TaskInputRequired)
		ids = append(ids, made.Task.TaskID)
	}
	w.end()
	// This one has no steps, so it does not continue them.
	other := newWitness(t, programCommand(t, "--selftest", "--state", state, "--fallback-tools", "always"))
	text := func(tool string, arguments map[string]any) string {
		t.Helper()
		var r mcp.CallToolResult
		other.must(&r, "tools/call", map[string]any{"name": tool, "arguments": arguments})
		said, _ := mcp.TextOf(r.Content[0])
		return said
	}
	for i, id := range ids {
		get := map[string]any{"task_id": id, "wait_ms": 0}
		if said := text("get_task_result", get); !strings.Contains(said, `waits for its user to answer "Publish it?"`) {
			t.Errorf("before the answer: %s", said)
		}
		runClient(t, "", "tasks", "answer", id, "yes", "--state", state).is(t, exitFine, id+" answered: accept\n", "")
		const says = `has the answer to "Publish it?", and goes on when a runnel with its tool runs`
		for _, said := range []string{text("get_task_result", get), text("list_tasks", map[string]any{"all": true}),
			runClient(t, "", "tasks", "get", id, "--state", state).stdout} {
			if strings.Count(said, says) < 1 || strings.Count(said, says) > i+1 || strings.Contains(said, "tasks answer "+id) {
				t.Errorf("after the answer: %s", said)
			}
		}
		runClient(t, "", "tasks", "list", "--state", state).is(t, exitFine, ".*"+id[:8]+"  .*  .answered. Publish it.*", "")
	}
	other.end()
	w = newWitness(t, programCommand(t, "--config", file, "--state", state))
	for _, id := range ids {
		statusBecomes(t, w, id, mcp.TaskCompleted)
	}
	w.end()
}
