package model

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"runnel/internal/modeltest"
	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tools"
	"runnel/tools/toolstest"
)

// add is a tool for models.
func add() tools.Tool {
	return tools.Func("my.add", "Adds.", func(_ context.Context, in struct{ A, B int }, out *tools.Output) (*mcp.CallToolResult, error) {
		_, _ = fmt.Fprintln(out, "adding")
		if in.B == 0 {
			return mcp.ErrorResult("nothing to add"), nil
		}
		return mcp.Result(fmt.Sprint(in.A + in.B)), nil
	})
}

// with is a question to a model that may call tools.
func with(api, more string) string {
	return strings.Replace(question(api), "prompt:", "tools: [my.add], "+more+" prompt:", 1)
}

// An answer may call tools: each call is a task, its result goes back, and what comes of the last answer is
// the result. A call that cannot be made, or fails, is for the model to read.
func TestRounds(t *testing.T) {
	for api, want := range map[string][]string{
		"anthropic": {`"content":[{"text":"Let me see.","type":"text"},{"id":"1","input":{"A":1,"B":2},"name":"my_add","type":"tool_use"}`,
			`"content":"3","is_error":false,"tool_use_id":"1","type":"tool_result"`, `"content":"nothing to add","is_error":true`,
			`unknown tool: \"other\"`, `"tools":[{"description":"Adds.","input_schema":{`},
		"openai": {`"content":"Let me see.","role":"assistant","tool_calls":[{"function":{"arguments":"{\"A\":1,\"B\":2}","name":"my_add"},"id":"1"`,
			`{"content":"3","role":"tool","tool_call_id":"1"}`, `"content":"nothing to add","role":"tool"`, `unknown tool: \"other\"`},
		"responses": {`{"content":"Let me see.","role":"assistant"},{"arguments":"{\"A\":1,\"B\":2}","call_id":"1","name":"my_add","type":"function_call"}`,
			`{"call_id":"1","output":"3","type":"function_call_output"}`, `"output":"nothing to add"`, `unknown tool: \"other\"`},
		"ollama": {`"tool_calls":[{"function":{"name":"my_add","arguments":{"A":1,"B":2}}}`, `{"content":"3","role":"tool","tool_name":"my_add"}`,
			`"content":"nothing to add"`, `unknown tool: \"other\"`},
	} {
		t.Run(api, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := parse(t, with(api, ""))
				provider := &modeltest.Endpoint{Answers: []modeltest.Answer{
					{Tokens: []string{"Let me ", "see."}, Input: 10, Output: 5, Calls: []modeltest.Call{{ID: "1", Name: "my_add", Arguments: `{"A":1,"B":2}`},
						{ID: "2", Name: "my_add", Arguments: `{"A":1,"B":0}`}, {ID: "3", Name: "other", Arguments: `{}`},
						{ID: "4", Name: "my_add", Arguments: `{"A":"x","B":1}`}}},
					{Tokens: []string{"It is 3."}, Input: 30, Output: 4},
				}}
				defer through(m, provider)()
				called := toolstest.Call(t, m, map[string]string{"what": "x"}, add())
				if called.IsError || called.Text() != "It is 3." {
					t.Errorf("%v %q", called.IsError, called.Text())
				}
				// The ids of tasks are random.
				output := taskIDs().ReplaceAllString(called.Output, "ID")
				if want := "Let me see.\n[my_add runs as task ID]\n[my_add runs as task ID]\n[other is not run: unknown tool: \"other\"]\n[my_add is not run: "; !strings.HasPrefix(output, want) ||
					!strings.HasSuffix(output, "]\n[my_add: completed]\n[my_add: failed, nothing to add]\nIt is 3.") {
					t.Errorf("%s", output)
				}
				asked := provider.Requests()
				if len(asked) != 2 {
					t.Fatalf("%d requests", len(asked))
				}
				for _, part := range want {
					if !strings.Contains(asked[1].Text, part) {
						t.Errorf("the second request has not %s:\n%s", part, asked[1].Text)
					}
				}
				if u := usageOf(t, called.CallToolResult); u.Requests != 2 || u.InputTokens != 40 || u.OutputTokens != 9 {
					t.Errorf("%+v", u)
				}
			})
		})
	}
}

// A model that never stops calling is stopped, and one that is told of a tool that is not there is not asked.
func TestRoundsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := parse(t, with("openai", "maxRounds: 3,"))
		for range 2 {
			provider := &modeltest.Endpoint{Answers: []modeltest.Answer{{Calls: []modeltest.Call{{ID: "1", Name: "my_add", Arguments: `{"A":1,"B":2}`}}}}}
			stop := through(m, provider)
			called := toolstest.Call(t, m, map[string]string{"what": "x"}, add())
			if want := "the model wants to go on after 3 rounds (maxRounds)"; !called.IsError || called.Text() != want || len(provider.Requests()) != 3 {
				t.Errorf("%v %q, %d requests", called.IsError, called.Text(), len(provider.Requests()))
			}
			called = toolstest.Call(t, m, map[string]string{"what": "x"})
			if want := `model.tools names "my.add", and there is no such tool`; !called.IsError || called.Text() != want {
				t.Errorf("%q", called.Text())
			}
			stop()
		}
	})
}

// When the output takes no more, the tools of the model have ended before its call has.
func TestRoundsWithoutOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 2 {
			var cancelled atomic.Bool
			own, begun := partials.NewLog(nil), make(chan struct{})
			others := []tools.Tool{
				tools.Func("my.add", "Adds.", func(context.Context, struct{}, *tools.Output) (*mcp.CallToolResult, error) {
					<-begun // otherwise the other one need not begin
					own.Close()
					return mcp.Result("3"), nil
				}),
				tools.Func("slow", "Waits.", func(ctx context.Context, _ struct{}, _ *tools.Output) (*mcp.CallToolResult, error) {
					close(begun)
					<-ctx.Done()
					cancelled.Store(true)
					return nil, context.Cause(ctx)
				}),
			}
			m := parse(t, strings.Replace(with("openai", ""), "[my.add]", "[my.add, slow]", 1))
			provider := &modeltest.Endpoint{Answers: []modeltest.Answer{{Calls: []modeltest.Call{{ID: "1", Name: "my_add", Arguments: `{}`},
				{ID: "2", Name: "slow", Arguments: `{}`}}}}}
			stop := through(m, provider)
			called := toolstest.Call(t, onLog{m, own, func() {
				synctest.Wait()
				if !cancelled.Load() {
					t.Error("a tool runs when the call has ended")
				}
			}}, map[string]string{"what": "x"}, others...)
			stop()
			if !called.IsError || len(provider.Requests()) != 1 {
				t.Errorf("%v %q, %d requests", called.IsError, called.Text(), len(provider.Requests()))
			}
		}
	})
}

// onLog is a model that writes to a log of a test. over is called when its call has ended.
type onLog struct {
	*Model
	log  *partials.Log
	over func()
}

func (o onLog) Call(ctx context.Context, in *tools.Call, out *tools.Output) (*mcp.CallToolResult, error) {
	defer o.over()
	return o.Model.Call(ctx, in, tools.NewOutput(ctx, o.log, nil))
}

// What a model reads of the results of its tools is bounded, each and all together.
func TestResultsAreBounded(t *testing.T) {
	long := "begin\n"
	for i := range 300 {
		long += fmt.Sprintf("%d%s\n", i, strings.Repeat("x", 1000))
	}
	long += "the end"
	c := &conversation{}
	for range 30 {
		results := []result{{text: long}, {text: "short"}}
		c.fit(results)
		c.rounds = append(c.rounds, round{results: results})
	}
	sum := 0
	for i, r := range c.rounds {
		first := r.results[0].text
		if i < 8 && (!strings.HasPrefix(first, "begin\n") || !strings.HasSuffix(first, "the end") || !strings.Contains(first, "left out")) ||
			len(first) > maxResult+200 || i == 29 && !strings.Contains(first, fmt.Sprintf("%d bytes", len(long))) {
			t.Errorf("round %d: %d bytes: %.200q", i, len(first), first)
		}
		sum += len(first) + len(r.results[1].text)
	}
	if sum > maxResults+len(c.rounds)*200 {
		t.Errorf("%d bytes", sum)
	}
}

// A tool that runs when the time of the call is over is cancelled.
func TestRoundsTimeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := parse(t, strings.TrimSuffix(with("anthropic", ""), "}")+", timeout: 2s}")
		for range 2 {
			provider := &modeltest.Endpoint{Answers: []modeltest.Answer{{Tokens: []string{"Wait."},
				Calls: []modeltest.Call{{ID: "1", Name: "my_add", Arguments: `{"A":1,"B":2}`}}}}}
			stop := through(m, provider)
			began := time.Now()
			slow := tools.Func("my.add", "Adds.", func(ctx context.Context, _ struct{ A, B int }, _ *tools.Output) (*mcp.CallToolResult, error) {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			})
			called := toolstest.Call(t, m, map[string]string{"what": "x"}, slow)
			if took := time.Since(began); took != 2*time.Second || called.Text() != "Wait.\ntimed out after 2s" ||
				!strings.HasSuffix(called.Output, "\n[my_add: cancelled, the call of the model has ended]\n") {
				t.Errorf("%v, %q, %q", took, called.Text(), called.Output)
			}
			stop()
		}
	})
}

// What a model takes for JSON and is not reaches the tool's schema, which says so.
func TestArgumentsOf(t *testing.T) {
	for text, want := range map[string]string{"": "{}", `{"a":1}`: `{"a":1}`, `{"a`: `"{\"a"`} {
		if got := argumentsOf([]byte(text)); string(got) != want || !json.Valid(got) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
