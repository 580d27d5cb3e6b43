package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"runnel/rpc/mcp"
)

// twoQuestions is a tool that asks two lasting questions, the second while the first is open, and says the
// answers.
func twoQuestions() *Function {
	return &Function{
		Tool: mcp.Tool{Name: "tool", InputSchema: json.RawMessage(`{"type":"object"}`),
			Execution: &mcp.ToolExecution{TaskSupport: mcp.TaskOptional}},
		Do: func(ctx context.Context, call *Call, _ *Output) (*mcp.CallToolResult, error) {
			names := []string{"one", "two"}
			said := make([]string, len(names))
			var all sync.WaitGroup
			for i, name := range names {
				all.Go(func() {
					answer, done, err := call.AskLasting(ctx, name, Question{Message: name + "?",
						Schema: json.RawMessage(`{"type":"object","properties":{}}`)})
					if err != nil {
						said[i] = err.Error()
						return
					}
					said[i] = string(answer.Action)
					done()
				})
				time.Sleep(time.Second) // virtual
			}
			all.Wait()
			return mcp.Result("said: " + strings.Join(said, " ")), nil
		},
	}
}

func (c *statelessClient) send(format string, a ...any) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c.in, format+"\n", a...); err != nil {
		c.t.Fatal(err)
	}
}

// until returns the next line that contains a text.
func (c *statelessClient) until(text string) string {
	c.t.Helper()
	for {
		if line := c.next(); strings.Contains(line, text) {
			return line
		}
	}
}

var (
	taskID    = regexp.MustCompile(`"taskId":"([^"]+)"`)
	requestID = regexp.MustCompile(`"id":([^,]+),`)
)

// A client of the handshake era is asked one question at a time. While one is open, another can be answered by
// waiting for the task's result, and one that its user dismisses stays open for who asks for the result then.
func TestLastingQuestionsOfTheHandshakeEra(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serveStateless(t, twoQuestions())
		c.send(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{},"tasks":{}}}}`)
		c.response()
		c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		answer := func(request, action string) {
			t.Helper()
			c.send(`{"jsonrpc":"2.0","id":%s,"result":{"action":%q}}`, requestID.FindStringSubmatch(request)[1], action)
		}
		for i := range 2 {
			c.send(`{"jsonrpc":"2.0","id":"call%d","method":"tools/call","params":{"name":"tool","task":{}}}`, i)
			id := taskID.FindStringSubmatch(c.until(fmt.Sprintf(`"id":"call%d"`, i)))[1]
			first := c.until("elicitation/create")
			if !strings.Contains(first, "one?") {
				t.Fatalf("first: %s", first)
			}
			c.silence() // the second waits for its turn
			c.send(`{"jsonrpc":"2.0","id":"result%d","method":"tasks/result","params":{"taskId":%q}}`, i, id)
			second := c.until("elicitation/create")
			if !strings.Contains(second, "two?") {
				t.Fatalf("second: %s", second)
			}
			answer(second, "decline")
			answer(first, "cancel")
			again := c.until("elicitation/create")
			if !strings.Contains(again, "one?") {
				t.Fatalf("again: %s", again)
			}
			answer(again, "cancel") // now this client has dismissed it twice, and is not asked again
			c.silence()
			c.send(`{"jsonrpc":"2.0","id":"later%d","method":"tasks/result","params":{"taskId":%q}}`, i, id)
			later := c.until("elicitation/create")
			answer(later, "accept")
			for range 2 { // both requests
				if result := c.response(); !strings.Contains(result, "said: accept decline") {
					t.Errorf("the result is %s", result)
				}
			}
		}
	})
}

// A client of the stateless era finds both questions in the answer to its call. If its user dismisses one, it
// is not asked for it again: the call goes on as a task, in which the question stays open.
func TestLastingQuestionsOfTheStatelessEra(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serveStateless(t, twoQuestions())
		const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
		for range 2 {
			c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tool",` + meta + `}}`)
			responses := `"question-for-one":{"action":"cancel"}`
			var created []string
			for created == nil {
				line := c.until(`"id":1`)
				if created = taskID.FindStringSubmatch(line); created != nil {
					break
				}
				var asked struct{ Result mcp.InputRequiredResult }
				if err := json.Unmarshal([]byte(line), &asked); err != nil || asked.Result.RequestState == "" {
					t.Fatal(line, err)
				}
				c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tool","requestState":%q,"inputResponses":{%s},%s}}`,
					asked.Result.RequestState, responses, meta)
			}
			time.Sleep(2 * time.Second) // virtual
			get := func() string {
				t.Helper()
				c.send(`{"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":%q,%s}}`, created[1], meta)
				return c.until(`"id":2`)
			}
			update := func(responses string) {
				t.Helper()
				c.send(`{"jsonrpc":"2.0","id":3,"method":"tasks/update","params":{"taskId":%q,"inputResponses":{%s},%s}}`,
					created[1], responses, meta)
				c.until(`"id":3`)
			}
			update(`"question-for-two":{"action":"accept"}`)
			update(responses) // dismissed again
			if line := get(); !strings.Contains(line, "one?") || strings.Contains(line, "two?") {
				t.Errorf("the task is %s", line)
			}
			update(`"question-for-one":{"action":"decline"}`)
			time.Sleep(time.Second) // virtual
			if line := get(); !strings.Contains(line, "said: decline accept") {
				t.Errorf("the task is %s", line)
			}
		}
	})
}
