package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// until reads a stream of events up to the message that contains a text, and returns that message.
func until(t *testing.T, lines *bufio.Reader, text string) string {
	t.Helper()
	var seen strings.Builder
	for {
		line, err := lines.ReadString('\n')
		if data, ok := strings.CutPrefix(line, "data: "); ok && strings.Contains(data, text) {
			return data
		}
		seen.WriteString(line)
		if err != nil {
			t.Fatalf("no %s: %v\n%s", text, err, &seen)
		}
	}
}

// A client of 2025-11-25 that has closed the stream of its call after the handle, and has no GET stream open,
// gets the task's question on the stream of tasks/result: whether the question was asked before or after
// that, with streamed output and without.
func TestQuestionOnResultStream(t *testing.T) {
	t.Parallel()
	s := serveHTTP(t, writeConfig(t, `
tools:
  sure: {shell: 'echo sure', confirm: "Really?"}
`)...)
	for name, capabilities := range map[string]string{
		"streaming": `{"elicitation":{},"tasks":{"streaming":{"partial":{}}}}`,
		"plain":     `{"elicitation":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := &resumed{t: t, s: s}
			hello := strings.Replace(initialize, `{"tasks":{"streaming":{"partial":{}}}}`, capabilities, 1)
			client.session = client.send("POST", hello).Header.Get("Mcp-Session-Id")
			for round := range 2 {
				call := client.send("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":"c%d","method":"tools/call",`+
					`"params":{"name":"sure","arguments":{},"task":{}}}`, round))
				task := handleOf(t, call)
				result := client.send("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":"r%d","method":"tasks/result",`+
					`"params":{"taskId":%q}}`, round, task))
				lines := bufio.NewReader(result.Body)
				var question struct{ ID json.RawMessage }
				_ = json.Unmarshal([]byte(until(t, lines, `"elicitation/create"`)), &question)
				client.answer(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{}}}`, question.ID))
				until(t, lines, `sure`)
			}
		})
	}
}

// A client of 2025-11-25 that has a GET stream open, and closes the stream of its call after the handle as
// the official SDKs do, gets the rest on the GET stream: the task's question, its output and its status, each
// once and in order.
func TestTaskOnGETStream(t *testing.T) {
	t.Parallel()
	s := serveHTTP(t, writeConfig(t, `
tools:
  sure: {shell: 'echo one; echo two', confirm: "Really?"}
`)...)
	client := &resumed{t: t, s: s}
	hello := strings.Replace(initialize, `"capabilities":{`, `"capabilities":{"elicitation":{},`, 1)
	client.session = client.send("POST", hello).Header.Get("Mcp-Session-Id")
	get := bufio.NewReader(client.send("GET", "").Body)
	for round := range 2 {
		call := client.send("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":"c%d","method":"tools/call",`+
			`"params":{"name":"sure","arguments":{},"task":{}}}`, round))
		task := handleOf(t, call)
		var question struct{ ID json.RawMessage }
		_ = json.Unmarshal([]byte(until(t, get, `"elicitation/create"`)), &question)
		client.answer(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{}}}`,
			question.ID))
		text := ""
		seqs := 0
		status := ""
		for status != "completed" {
			var m struct {
				Method string
				Params struct {
					TaskID, Status string
					Seq            int
					Content        []struct{ Text string }
				}
			}
			_ = json.Unmarshal([]byte(until(t, get, task)), &m)
			switch status = m.Params.Status; m.Method {
			case "notifications/tasks/partial":
				if m.Params.Seq != seqs {
					t.Errorf("partial %d comes as number %d", m.Params.Seq, seqs)
				}
				seqs++
				for _, item := range m.Params.Content {
					text += item.Text
				}
			case "elicitation/create":
				t.Error("the question comes twice")
			}
		}
		if text != "one\ntwo\n" {
			t.Errorf("the GET stream has brought %q", text)
		}
	}
}

// When the server stops, a call that still runs gets an error, and after that nothing of it comes on another
// stream.
func TestNothingAfterError(t *testing.T) {
	t.Parallel()
	s := serveHTTP(t, writeConfig(t, `
tools:
  stubborn: {shell: 'trap "" TERM; while :; do echo line; sleep 0.1; done', grace: 2s}
`)...)
	client := &resumed{t: t, s: s}
	client.session = client.send("POST", initialize).Header.Get("Mcp-Session-Id")
	get := client.send("GET", "")
	var calls []*bufio.Reader
	for i, partial := range []string{"false", "true"} {
		call := client.send("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":"c%d","method":"tools/call","params":`+
			`{"name":"stubborn","arguments":{},"_meta":{"progressToken":%d,"partialResults":%s}}}`, i,
			i, partial))
		calls = append(calls, bufio.NewReader(call.Body))
		until(t, calls[i], `notifications/progress`)
	}
	s.end()
	for _, call := range calls {
		until(t, call, `"error"`)
	}
	rest, _ := io.ReadAll(get.Body)
	if strings.Contains(string(rest), "notifications/progress") {
		t.Errorf("after the error: %s", rest)
	}
}

// handleOf reads the id of a call's task, and closes the stream of the call.
func handleOf(t *testing.T, call *http.Response) string {
	t.Helper()
	defer call.Body.Close()
	var handle struct {
		Result struct{ Task struct{ TaskID string } }
	}
	if call.Header.Get("Content-Type") == "application/json" {
		text, _ := io.ReadAll(call.Body)
		_ = json.Unmarshal(text, &handle)
	} else {
		_ = json.Unmarshal([]byte(until(t, bufio.NewReader(call.Body), `"taskId"`)), &handle)
	}
	return handle.Result.Task.TaskID
}

// answer sends a message that gets no response.
func (r *resumed) answer(body string) {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), "POST", r.s.url, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Mcp-Session-Id", r.session)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusAccepted {
		r.t.Errorf("%s: %s", body, response.Status)
	}
}
