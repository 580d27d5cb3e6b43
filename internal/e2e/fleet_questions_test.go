package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"runnel/internal/natstest"
)

// startNATS starts a server, which ends with the test.
func startNATS(t *testing.T) (url string) {
	t.Helper()
	return natstest.Start(t, 1, environ(t)).URL()
}

// samplerScript is a server with one tool, which asks the client's model.
const samplerScript = `
while read -r line; do
	id=$(printf %s "$line" | sed 's/.*"id":\([^,}]*\).*/\1/')
	case $line in
	*'"initialize"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}' ;;
	*'"tools/list"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[{"name":"sample","inputSchema":{"type":"object"}}]}}' ;;
	*'"tools/call"'*) call=$id; echo '{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"Say it"}}],"maxTokens":5}}' ;;
	*'"id":"s"'*) echo '{"jsonrpc":"2.0","id":'$call',"result":{"content":[{"type":"text","text":"heard '"$(printf %s "$line" | sed 's/.*"text":"\([a-z]*\)".*/\1/')"'"}]}}' ;;
	*'"id":'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{}}' ;;
	esac
done
`

// A worker's question reaches the client at the front, in both eras, from a command's confirm and from a
// server that the worker runs; the answer goes back. A client that cannot be asked is not. When the front
// dies, the next one finds the question.
func TestFleetQuestions(t *testing.T) {
	t.Parallel()
	program, env := builtProgram(t), append(environ(t), "RUNNEL_STATE="+startNATS(t))
	start := func(args ...string) *session {
		cmd := exec.Command(program, args...)
		cmd.Env = env
		return process(t, cmd)
	}
	sampler := filepath.Join(t.TempDir(), "sampler")
	if err := os.WriteFile(sampler, []byte(samplerScript), 0o600); err != nil {
		t.Fatal(err)
	}
	worker := exec.Command(program, append([]string{"work", "--slots", "4"}, writeConfig(t, `
tools:
  guarded: {shell: 'echo "ran $what"', input: {what: {type: string}}, confirm: "Run {{what}}?", runs: builds}
  careless: {shell: "echo ran all the same", confirm: "Really?", confirmFallback: run, runs: builds}
  steps: {shell: 'for i in 1 2; do sleep 0.3; echo "$i/2 done"; done; sleep 0.3', progress: '(\d+)/(\d+)', runs: builds}
  sets: {shell: 'cat "$RUNNEL_VARIABLES"; echo "{\"from\":\"the worker\"}" > "$RUNNEL_VARIABLES"', runs: builds}
upstreams:
  other: {command: [`+program+
		`, --selftest, --state, memory, --config, /dev/null], prefix: up_, allow: [ask], runs: builds}
  samples: {command: [sh, `+sampler+`], prefix: up_, runs: builds}
`)...)...)
	worker.Env = env
	var workerLog syncBuffer
	worker.Stderr = &workerLog
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = worker.Process.Signal(syscall.SIGTERM)
		_ = worker.Wait()
		if t.Failed() {
			t.Log(workerLog.String())
		}
	})
	config := writeConfig(t, "fleet: {classes: [builds]}")

	// A session of the handshake era.
	front := start(config...)
	front.sendLine(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{},"sampling":{},"tasks":{}},"clientInfo":{"name":"test","version":"1"}}}`)
	front.line()
	front.sendLine(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	until := func(s *session, what ...string) string {
		t.Helper()
		var seen []string
		for {
			line, err := s.next(watchdog)
			if err != nil {
				t.Fatalf("no %q: %v\n%s", what, err, strings.Join(seen, "\n"))
			}
			seen = append(seen, string(line))
			for _, part := range what {
				if strings.Contains(string(line), part) {
					return string(line)
				}
			}
		}
	}
	for deadline := time.Now().Add(watchdog); ; { // until the worker has told of its upstream's tools, too
		front.sendLine(`{"jsonrpc":"2.0","id":"list","method":"tools/list"}`)
		if got := until(front, `"id":"list"`); strings.Contains(got, "up_ask") &&
			strings.Contains(got, "up_sample") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the worker's tools are not listed")
		}
		until(front, "tools/list_changed")
	}
	asTask := false // the last call
	call := func(s *session, id, rest string) {
		asTask = strings.Contains(rest, `"task":{}`)
		s.sendLine(`{"jsonrpc":"2.0","id":"%s","method":"tools/call","params":{%s}}`, id, rest)
	}
	// asked waits for a question, and answers it. The question names its task, if the client knows that.
	asked := func(s *session, method, message, answer string) {
		t.Helper()
		line := until(s, method)
		if names := strings.Contains(line, "related-task"); names != asTask {
			t.Errorf("it names its task: %v: %s", names, line)
		}
		var q struct{ ID json.RawMessage }
		if err := json.Unmarshal([]byte(line), &q); err != nil || !strings.Contains(line, message) {
			t.Fatalf("%v: %s", err, line)
		}
		s.sendLine(`{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, answer)
	}
	call(front, "accepted", `"name":"guarded","arguments":{"what":"it"}`)
	asked(front, "elicitation/create", `Run \"it\"?`, `{"action":"accept"}`)
	if got := until(front, `"id":"accepted"`); !strings.Contains(got, "ran it") {
		t.Error(got)
	}
	call(front, "declined", `"name":"guarded","arguments":{"what":"it"},"task":{}`)
	asked(front, "elicitation/create", `Run \"it\"?`, `{"action":"decline"}`)
	if got := until(front, "not run: the user declined"); !strings.Contains(got,
		"notifications/tasks/status") {
		t.Error(got)
	}
	call(front, "upstream", `"name":"up_ask","arguments":{"message":"Who?"}`)
	asked(front, "elicitation/create", "Who?", `{"action":"accept","content":{"answer":"Ada"}}`)
	if got := until(front, `"id":"upstream"`); !strings.Contains(got, "accepted: Ada") {
		t.Error(got)
	}
	call(front, "sampled", `"name":"up_sample","arguments":{}`)
	asked(front, "sampling/createMessage", "Say it",
		`{"role":"assistant","model":"m","content":{"type":"text","text":"said"}}`)
	if got := until(front, `"id":"sampled"`); !strings.Contains(got, "heard said") {
		t.Error(got)
	}

	// Variables and progress.
	call(front, "variables", `"name":"sets","arguments":{},"task":{},"_meta":{"runnel/variables":{"to":"you"}}`)
	var created struct {
		Result struct {
			Task struct{ TaskID string } `json:"task"`
		} `json:"result"`
	}
	if err := json.Unmarshal([]byte(until(front, `"id":"variables"`)), &created); err != nil {
		t.Fatal(err)
	}
	front.sendLine(`{"jsonrpc":"2.0","id":"set","method":"tasks/result","params":{"taskId":"%s"}}`,
		created.Result.Task.TaskID)
	if got := until(front, `"id":"set"`); !strings.Contains(got, `{\"to\":\"you\"}`) ||
		!strings.Contains(got, `"runnel/variables":{"from":"the worker","to":"you"}`) {
		t.Error(got)
	}
	call(front, "progress", `"name":"steps","arguments":{},"_meta":{"progressToken":"p"}`)
	var progress []string
	for line := ""; !strings.Contains(line, `"id":"progress"`); progress = append(progress, line) {
		line = until(front, "notifications/progress", `"id":"progress"`)
	}
	// The scale goes on from what came before.
	if got := strings.Join(progress, "\n"); !strings.Contains(got, `"total":`) {
		t.Errorf("no progress of the worker's has come:\n%s", got)
	}

	// The stateless era, over another front: a question is the answer to the call.
	other := start(config...)
	stateless := func(id, method, capabilities, members string) {
		other.sendLine(`{"jsonrpc":"2.0","id":"%s","method":"%s","params":%s}`, id, method,
			inEra(capabilities, "", members))
	}
	const guarded = `"name":"guarded","arguments":{"what":"that"}`
	stateless("asks", "tools/call", elicits, guarded)
	var asks struct {
		Result struct {
			RequestState  string
			InputRequests map[string]json.RawMessage
		}
	}
	if line := until(other, `"id":"asks"`); json.Unmarshal([]byte(line), &asks) != nil ||
		len(asks.Result.InputRequests) != 1 || !strings.Contains(line, `Run \"that\"?`) {
		t.Fatal(line)
	}
	for key := range asks.Result.InputRequests {
		stateless("answers", "tools/call", elicits,
			guarded+fmt.Sprintf(`,"requestState":%q,"inputResponses":{%q:{"action":"accept"}}`,
				asks.Result.RequestState, key))
	}
	if got := until(other, `"id":"answers"`); !strings.Contains(got, "ran that") {
		t.Error(got)
	}
	stateless("cannot", "tools/call", "", `"name":"guarded","arguments":{}`)
	if got := until(other, `"id":"cannot"`); !strings.Contains(got,
		"must be confirmed by the user, and this client cannot ask its user") {
		t.Error(got)
	}
	stateless("careless", "tools/call", "", `"name":"careless","arguments":{}`)
	if got := until(other, `"id":"careless"`); !strings.Contains(got, "ran all the same") {
		t.Error(got)
	}

	// The front dies with an open question.
	call(front, "left", `"name":"guarded","arguments":{"what":"the last"},"task":{}`)
	if err := json.Unmarshal([]byte(until(front, `"id":"left"`)), &created); err != nil {
		t.Fatal(err)
	}
	id := created.Result.Task.TaskID
	until(front, "elicitation/create")
	if err := syscall.Kill(front.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var line string
	for deadline := time.Now().Add(watchdog); !strings.Contains(line, `"status":"input_required"`) &&
		time.Now().Before(deadline); {
		stateless("get", "tasks/get", elicits+","+takes, fmt.Sprintf(`"taskId":%q`, id))
		// The question is stored before the status, which is stored soon after it.
		line = until(other, `"id":"get"`)
	}
	if !strings.Contains(line, `"status":"input_required"`) || !strings.Contains(line, `Run \"the last\"?`) ||
		strings.Contains(line, "runnel/question") {
		t.Fatal(line)
	}
	if err := json.Unmarshal([]byte(line), &asks); err != nil {
		t.Fatal(err)
	}
	last := start(config...) // a session that waits for the result is asked, too
	last.sendLine(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{},"tasks":{}},"clientInfo":{"name":"test","version":"1"}}}`)
	last.line()
	last.sendLine(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	last.sendLine(`{"jsonrpc":"2.0","id":"result","method":"tasks/result","params":{"taskId":"%s"}}`, id)
	asked(last, "elicitation/create", `Run \"the last\"?`, `{"action":"accept"}`)
	if got := until(last, `"id":"result"`); !strings.Contains(got, "ran the last") {
		t.Error(got)
	}
	for _, s := range []*session{other, last} {
		if err := s.closeStdin(); err != nil {
			t.Fatal(err)
		}
		if _, code, err := s.finish(); err != nil || code != 0 {
			t.Errorf("exit code %d, %v", code, err)
		}
	}
}
