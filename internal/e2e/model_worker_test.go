package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"runnel/internal/modeltest"
)

// answerTo returns the answer to a request, past notifications; a question of the server is answered with
// action.
func (s *session) answerTo(t *testing.T, id int, action string) string {
	t.Helper()
	for {
		line := s.line()
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		switch {
		case m.Method == "elicitation/create":
			s.sendLine(`{"jsonrpc":"2.0","id":%s,"result":{"action":%q,"content":{}}}`, m.ID, action)
		case m.Method == "" && string(m.ID) == fmt.Sprint(id):
			return string(line)
		}
	}
}

// A model on a worker: the user is asked where the call is made, the worker has the key and the headers, and
// neither they nor the front's lack of them is seen elsewhere. The budget of the day is that of all.
func TestModelOnAWorker(t *testing.T) {
	t.Parallel()
	provider := &modeltest.Endpoint{Answers: []modeltest.Answer{{Tokens: []string{"The ", "answer."}, Input: 5, Output: 100}}}
	endpoint := httptest.NewServer(provider)
	t.Cleanup(endpoint.Close)
	tp := &tap{}
	env := append(environ(t), noConfig, "RUNNEL_STATE=nats://"+tp.listen(t, strings.TrimPrefix(startNATS(t), "nats://")))
	config := writeConfig(t, fmt.Sprintf(`tools:
  say:
    model: {api: openai, url: %q, name: m-1, key: "${MODEL_KEY}", headers: {X-Team: "${TEAM}"}, prompt: "Say {{what}}", budget: {tokens: 4500, per: day}}
    input: {what: {type: string}}
    confirm: "Spend money on {{what}}?"
    runs: ai
`, endpoint.URL))
	worker := exec.Command(builtProgram(t), append([]string{"work", "--log-level", "debug"}, config...)...)
	var log syncBuffer
	worker.Env, worker.Stderr = append(env, "MODEL_KEY="+modelKey, "TEAM=team-s3cr3t"), &log
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	front := exec.Command(builtProgram(t), config...)
	front.Env = env
	s := process(t, front)
	s.sendLine(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"x","version":"1"}}}`)
	s.line()
	for id, action := range []string{"decline", "accept", "accept", "accept"} {
		s.sendLine(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"say","arguments":{"what":"it"}}}`, id+1)
		line := s.answerTo(t, id+1, action)
		switch {
		case id == 0 && !strings.Contains(line, "not run: the user declined"),
			(id == 1 || id == 2) && (!strings.Contains(line, `"text":"The answer."`) || !strings.Contains(line, `"runnel/usage":{"model":"m-1","requests":1,"inputTokens":5,`)),
			id == 3 && !strings.Contains(line, `"text":"The answer."`):
			t.Errorf("call %d: %s", id, line)
		}
	}
	_ = s.closeStdin()
	for _, r := range provider.Requests() {
		if r.Header.Get("Authorization") != "Bearer "+modelKey || r.Header.Get("X-Team") != "team-s3cr3t" {
			t.Errorf("%v", r.Header)
		}
	}
	_ = worker.Process.Signal(syscall.SIGTERM)
	if err := worker.Wait(); err != nil {
		t.Error(err)
	}
	for what, text := range map[string]string{"NATS": tp.seen(), "the worker's log": log.String()} {
		if strings.Contains(text, modelKey) || strings.Contains(text, "team-s3cr3t") {
			t.Errorf("%s has a secret", what)
		}
	}
}

// What a model draws is in the result as a picture, and whole as a file of the task, in both eras.
func TestModelDraws(t *testing.T) {
	t.Parallel()
	dot, err := base64.StdEncoding.DecodeString("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==")
	if err != nil {
		t.Fatal(err)
	}
	endpoint := httptest.NewServer(&modeltest.Endpoint{Answers: []modeltest.Answer{{Tokens: []string{"A dot."}, Images: [][]byte{dot}}}})
	t.Cleanup(endpoint.Close)
	config := modelConfig(t, endpoint.URL, "")
	check := func(api, line string) {
		t.Helper()
		for _, want := range []string{`{"type":"text","text":"A dot."}`, `"data":"` + base64.StdEncoding.EncodeToString(dot) + `"`,
			`"mimeType":"image/png"`, `/files/picture-1.png"`} {
			if !strings.Contains(line, want) {
				t.Errorf("%s: no %s in %s", api, want, line)
			}
		}
	}
	old, stateless := inProcess(t, config...), inProcess(t, config...)
	old.sendLine(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	old.line()
	for id := range 4 {
		api := []string{"openai", "responses"}[id%2]
		old.sendLine(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{}}}`, id+1, api)
		check(api, old.answerTo(t, id+1, ""))
		stateless.sendLine(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, id+1, inEra("", "", fmt.Sprintf(`"name":%q,"arguments":{}`, api)))
		check(api, stateless.answerTo(t, id+1, ""))
	}
}
