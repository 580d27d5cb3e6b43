package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"runnel/internal/modeltest"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// modelKey is the key of every model in the tests.
const modelKey = "sk-test-0123456789"

// modelConfig writes a config with a tool "say" for each API, and the lines that are added to each.
func modelConfig(t *testing.T, url, more string) []string {
	t.Helper()
	config := "tools:\n"
	for _, api := range []string{"anthropic", "openai", "responses", "ollama"} {
		config += fmt.Sprintf("  %s:\n    model: {api: %[1]s, url: %q, name: m-1, key: %s, prompt: \"Say {{what}}\"}\n    input: {what: {type: string}}\n%s",
			api, url, modelKey, more)
	}
	return writeConfig(t, config)
}

// In every dialect and of every API, what a model says reaches the client as it comes, and once.
func TestModelInEveryDialect(t *testing.T) {
	t.Parallel()
	said := strings.SplitAfter("The quick brown fox jumps over the lazy dog.", " ")
	endpoint := httptest.NewServer(&modeltest.Endpoint{Answers: []modeltest.Answer{
		{Tokens: said, Input: 5, Pace: 2 * time.Millisecond}}})
	t.Cleanup(endpoint.Close)
	config := modelConfig(t, endpoint.URL, "")
	for i, flags := range []string{"--protocol=2024-11-05", "--protocol=2025-06-18", "--no-task", "--mode=task",
		"--mode=streaming", "--mode=immediate", "--protocol=2026-07-28", "--protocol=2026-07-28 --no-task"} {
		api := []string{"anthropic", "openai", "responses", "ollama"}[i%4]
		t.Run(api+" "+flags, func(t *testing.T) {
			t.Parallel()
			server := itself(t, append(config, "--pace=0", "--state=memory")...)
			for range 2 {
				args := append([]string{"call", api, "what=it"}, strings.Fields(flags)...)
				if got := runClient(t, "", append(args, server...)...); got.code != 0 || got.stdout != strings.Join(said, "") {
					t.Errorf("exit code %d, %q\n%s", got.code, got.stdout, got.stderr)
				}
			}
			args := append([]string{"call", api, "what=it", "-o", "json"}, strings.Fields(flags)...)
			got := runClient(t, "", append(args, server...)...)
			if want := `"runnel/usage":{"model":"m-1","requests":1,"inputTokens":5,"cachedTokens":0,"outputTokens":9,"usd":0}`; !strings.Contains(got.stdout, want) {
				t.Errorf("the result has not %s\n%s", want, got.stdout)
			}
		})
	}
}

// A cancelled call ends its request, soon after the client has said so, and the call after it works. What a
// provider says of the key is masked, in results, in the log of runnel and in the state.
func TestModelIsCancelled(t *testing.T) {
	t.Parallel()
	provider := &modeltest.Endpoint{Answers: []modeltest.Answer{{Tokens: []string{"begun"}, Silence: true},
		{Tokens: []string{"begun"}, Silence: true}, {Status: 401, Says: `{"error":{"message":"no such key: ` + modelKey + `"}}`}}}
	endpoint := httptest.NewServer(provider)
	t.Cleanup(endpoint.Close)
	state := stateDir(t)
	w := newWitness(t, racedCommand(t, append(modelConfig(t, endpoint.URL, ""), "--state", state, "--log-level=debug")...))
	for call := range 2 {
		var handle mcp.CreateTaskResult
		w.must(&handle, "tools/call", map[string]any{"name": "openai", "arguments": map[string]any{}, "task": map[string]any{}})
		id := handle.Task.TaskID
		for deadline := time.Now().Add(watchdog); w.output(id) != "begun" && time.Now().Before(deadline); {
			time.Sleep(5 * time.Millisecond)
		}
		began := time.Now()
		w.must(&mcp.Task{}, "tasks/cancel", map[string]any{"taskId": id})
		for deadline := time.Now().Add(watchdog); provider.Ended() <= call && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		t.Logf("the request ended %v after tasks/cancel was sent", time.Since(began).Round(time.Millisecond))
		if got := provider.Ended(); got != call+1 {
			t.Fatalf("%d requests have ended", got)
		}
		for deadline := time.Now().Add(watchdog); w.endOf(id) == "" && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		if status := w.endOf(id); !strings.HasPrefix(status, "cancelled ") {
			t.Errorf("the task is %s", status)
		}
	}
	for range 2 {
		said, r := w.texts("openai", nil)
		if want := "HTTP 401 Unauthorized: no such key: ***"; !r.IsError || said != want {
			t.Errorf("%v %q, want %q", r.IsError, said, want)
		}
	}
	w.end()
	if strings.Contains(w.log.String(), modelKey) {
		t.Errorf("the key is in the log:\n%s", &w.log)
	}
	files, err := os.ReadDir(state)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(state + "/" + file.Name())
		if err == nil && strings.Contains(string(text), modelKey) {
			t.Errorf("the key is in %s", file.Name())
		}
	}
}

// The budget of a day is that of all processes of a state, also one after the other, and usage is in the
// metrics.
func TestModelBudgetOfAState(t *testing.T) {
	t.Parallel()
	provider := &modeltest.Endpoint{Answers: []modeltest.Answer{{Tokens: []string{"fine"}, Input: 5, Output: 90}}}
	endpoint := httptest.NewServer(provider)
	t.Cleanup(endpoint.Close)
	flags := append(modelConfig(t, endpoint.URL, ""), "--state", stateDir(t),
		"--set", "tools.openai.model.price={input: 1, output: 4}",
		"--set", "tools.openai.model.budget={tokens: 200, per: day}")
	for call := range 4 {
		got := runClient(t, "", append([]string{"call", "openai", "what=it"}, itself(t, flags...)...)...)
		if want := "the budget is used up: 190 of 200 tokens today; the day ends at 00:00 UTC"; call < 2 && got.stdout != "fine" ||
			call >= 2 && !strings.Contains(got.stdout+got.stderr, want) {
			t.Errorf("call %d: exit code %d, %q\n%s", call, got.code, got.stdout, got.stderr)
		}
	}
	w := newWitness(t, programCommand(t, append(modelConfig(t, endpoint.URL, ""), "--metrics", ":0", "--log-format", "json",
		"--set", "tools.openai.model.price={input: 1, output: 4}")...))
	for range 2 {
		if said, r := w.texts("openai", nil); r.IsError || said != "fine" {
			t.Errorf("%q", said)
		}
	}
	page := scrape(t, &w.log)
	for _, line := range []string{`runnel_model_requests_total{model="m-1",tool="openai"} 2`,
		`runnel_model_tokens_total{kind="input",model="m-1",tool="openai"} 10`,
		`runnel_model_tokens_total{kind="output",model="m-1",tool="openai"} 180`,
		`runnel_model_usd_total{model="m-1",tool="openai"} 0.00073`} {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("no %s in:\n%s", line, page)
		}
	}
	w.end()
}

// The client's own model answers in both eras, where the client lets it be asked.
func TestModelOfTheClient(t *testing.T) {
	t.Parallel()
	flags := writeConfig(t, `
tools:
  ask:
    model: {api: sampling, name: clever, system: "Be {{how}}.", prompt: "Say {{what}}", maxTokens: 100}
    input: {how: {type: string, default: terse}, what: {type: string}}
`)
	const answer = `{"role":"assistant","content":{"type":"text","text":"Hello!"},"model":"client-1","stopReason":"endTurn"}`
	const asked = `{"maxTokens":100,"messages":[{"content":{"type":"text","text":"Say hi"},"role":"user"}],"modelPreferences":{"hints":[{"name":"clever"}]},"systemPrompt":"Be terse."}`
	const usage = `"runnel/usage":{"model":"client-1","requests":1,`
	s := inProcess(t, flags...)
	s.sendLine(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"sampling":{}},"clientInfo":{"name":"x","version":"1"}}}`)
	s.line()
	for id := range 2 {
		s.sendLine(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"ask","arguments":{"what":"hi"}}}`, id+1)
		var request struct {
			ID     json.RawMessage
			Method string
			Params json.RawMessage
		}
		if line := s.line(); json.Unmarshal(line, &request) != nil || request.Method != "sampling/createMessage" || string(request.Params) != asked {
			t.Fatalf("not the question: %s", line)
		}
		s.sendLine(`{"jsonrpc":"2.0","id":%s,"result":%s}`, request.ID, answer)
		if line := string(s.line()); !strings.Contains(line, `"text":"Hello!"`) || !strings.Contains(line, usage) || strings.Contains(line, `"isError":true`) {
			t.Errorf("%s", line)
		}
	}
	s.sendLine(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"ask","arguments":{"what":"hi"}}}`)
	var request struct{ ID json.RawMessage }
	_ = json.Unmarshal(s.line(), &request)
	s.sendLine(`{"jsonrpc":"2.0","id":%s,"error":{"code":-1,"message":"the user said no"}}`, request.ID)
	if line := string(s.line()); !strings.Contains(line, "the client has refused to ask its model: the user said no") {
		t.Errorf("%s", line)
	}

	s = inProcess(t, flags...)
	call := func(id int, capabilities, more string) string {
		s.sendLine(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, id,
			inEra(capabilities, "", `"name":"ask","arguments":{"what":"hi"}`+more))
		return string(s.line())
	}
	for id := range 2 {
		var question struct {
			Result struct {
				InputRequests map[string]struct {
					Method string
					Params json.RawMessage
				}
				RequestState string
			}
		}
		line := call(2*id+1, `"sampling":{}`, "")
		if json.Unmarshal([]byte(line), &question) != nil || len(question.Result.InputRequests) != 1 {
			t.Fatalf("not a question: %s", line)
		}
		for key, q := range question.Result.InputRequests {
			if q.Method != "sampling/createMessage" || string(q.Params) != asked {
				t.Errorf("%s %s", q.Method, q.Params)
			}
			line = call(2*id+2, `"sampling":{}`, fmt.Sprintf(`,"requestState":%q,"inputResponses":{%q:%s}`, question.Result.RequestState, key, answer))
		}
		if !strings.Contains(line, `"text":"Hello!"`) || !strings.Contains(line, usage) {
			t.Errorf("%s", line)
		}
	}
	if line := call(9, "", ""); !strings.Contains(line, "this client does not let runnel ask its model") || !strings.Contains(line, `"isError":true`) {
		t.Errorf("%s", line)
	}
}

// The example of the manual: a client shows the text as it comes, and has all of it and what it took.
func TestModelExample(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", dir, "./testdata/examples/model/...").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const said = "The loop never ends when the list is empty: check its length first."
	provider := exec.Command(filepath.Join(dir, "endpoint"), said)
	printed, err := provider.StdoutPipe()
	if err == nil {
		err = provider.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = provider.Process.Kill(); _ = provider.Wait() })
	url, err := bufio.NewReader(printed).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("internal/manual/models.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := wireOfModel(t, string(page))
	record := filepath.Join(t.TempDir(), "record")
	for range 2 {
		server := append([]string{racedProgram(t), "trace", "--file", record, "--"}, itself(t, "--config",
			"testdata/examples/model/runnel.yaml", "--state", "memory", "--log-level", "error")[1:]...)
		client := exec.Command(filepath.Join(dir, "client"),
			append([]string{"review", `{"diff":"- for {\n+ for range list {"}`}, server...)...)
		client.Env = append(environ(t), "MODEL_URL="+strings.TrimSpace(url), "MODEL_KEY="+modelKey)
		out, err := client.Output()
		text, rest, _ := strings.Cut(string(out), "\n")
		pieces := 0
		_, scanned := fmt.Sscanf(rest, "%d pieces, error: <nil>, usage: ", &pieces)
		if err != nil || scanned != nil || text != said || pieces < 2 || !strings.Contains(rest, `"inputTokens":42,`) {
			t.Errorf("%v, %v\n%s", err, scanned, out)
		}
		recorded, err := os.ReadFile(record)
		if err != nil {
			t.Fatal(err)
		}
		if wire := wireOfModel(t, string(recorded)); wire != shown || !strings.Contains(wire, said) {
			t.Errorf("on the wire:\n%s\nthe manual has:\n%s", wire, shown)
		}
	}
}

var (
	messages = regexp.MustCompile(`(-->|<--)[^{]* (\{.*\})`)
	uuids    = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	times    = regexp.MustCompile(`"20[0-9T:.-]+Z"`)
)

// wireOfModel returns a tools/call among lines with arrows, the answer to it and what comes about its task,
// without ids and times. The pieces of the text become one line, since each of them may have more or less of
// it.
func wireOfModel(t *testing.T, lines string) string {
	t.Helper()
	var wire strings.Builder
	text, seq := "", 0
	for line := range strings.Lines(lines) {
		parts := messages.FindStringSubmatch(line)
		if parts == nil {
			continue
		}
		var m struct {
			Method string
			Result struct{ Task json.RawMessage }
			Params struct {
				Content []struct{ Text string }
				Seq     int
			}
		}
		var all map[string]any
		if err := errors.Join(json.Unmarshal([]byte(parts[2]), &m), json.Unmarshal([]byte(parts[2]), &all)); err != nil {
			t.Fatal(err)
		}
		switch {
		case m.Method == "notifications/tasks/partial":
			if m.Params.Seq != seq {
				t.Errorf("seq %d, want %d", m.Params.Seq, seq)
			}
			seq++
			for _, c := range m.Params.Content {
				text += c.Text
			}
			continue
		case m.Method == "notifications/tasks/status":
			fmt.Fprintf(&wire, "%s\n", text)
		case m.Method != "tools/call" && m.Result.Task == nil:
			continue
		}
		message := uuids.ReplaceAllString(string(rawjson.Encode(all)), "ID")
		fmt.Fprintf(&wire, "%s %s\n", parts[1], times.ReplaceAllString(message, "TIME"))
	}
	return wire.String()
}
