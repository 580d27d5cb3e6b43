package steps

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/methods"
	"runnel/tasks/run"
	"runnel/tasks/statetest/fake"
	"runnel/tools"
	"runnel/tools/config"
)

// noting is a state in memory whose tasks could go on in another process. It counts what is noted.
type noting struct {
	fake.Alone
	writes, bytes int // of variables
	most, last    int // bytes of the variables of a task, at most and after the last write
}

func (n *noting) SetVariables(ctx context.Context, id string, patch []byte) ([]byte, error) {
	merged, err := n.Alone.SetVariables(ctx, id, patch)
	if bytes.Contains(patch, []byte(tasks.WorkPrefix)) && tasks.Resumes(merged) != "" {
		n.writes++
		n.bytes += len(merged)
		n.most, n.last = max(n.most, len(merged)), len(merged)
	}
	return merged, err
}

// called is how a call of steps ended.
type called struct {
	text    string
	isError bool
	log     string
}

// callSteps calls the tool run of a config twice, whose other tools do what a function says, and returns how
// the second call ended; both must end alike. The function gets the argument x of the tool.
func callSteps(t *testing.T, state tasks.Store, text, arguments string,
	do func(tool, x string) (string, error)) called {
	t.Helper()
	var ends []called
	synctest.Test(t, func(t *testing.T) {
		conf, err := config.Parse("f", []byte("tools:\n  run:\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		list, err := All(conf, func(string) bool { return true }, "here")
		if err != nil {
			t.Fatal(err)
		}
		registry := &tools.Registry{}
		for _, name := range []string{"a", "b"} {
			if err := registry.Add(&tools.Function{
				Tool: mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`),
					Execution: &mcp.ToolExecution{TaskSupport: mcp.TaskOptional}},
				Do: func(_ context.Context, in *tools.Call, _ *tools.Output) (*mcp.CallToolResult, error) {
					var p struct{ X any }
					if err := in.Decode(&p); err != nil {
						return nil, err
					}
					said, err := do(name, fmt.Sprint(p.X))
					return mcp.Result(said), err
				}}); err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range list {
			if err := registry.Add(s); err != nil {
				t.Fatal(err)
			}
		}
		srv := rpc.NewServer(nil)
		runner := run.NewRunner(run.Options{State: fake.State(state)})
		methods.Register(srv, runner)
		tools.Serve(srv, registry, runner, tools.ServeOptions{FallbackTools: "never"})
		inReader, in := io.Pipe()
		out, outWriter := io.Pipe()
		go func() {
			_ = srv.Serve(context.Background(), inReader, outWriter)
			runner.Close()
			_ = outWriter.Close()
		}()
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 8<<20)
		request := func(method, params string) (result mcp.CallToolResult) {
			t.Helper()
			if _, err := fmt.Fprintf(in, `{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`+"\n", method, params); err != nil {
				t.Fatal(err)
			}
			for lines.Scan() {
				var m struct {
					ID     int
					Result mcp.CallToolResult
					Error  any
				}
				if err := json.Unmarshal(lines.Bytes(), &m); err != nil || m.Error != nil {
					t.Fatalf("%s: %s", method, lines.Bytes())
				}
				if m.ID == 1 {
					return m.Result
				}
			}
			t.Fatal("no answer to ", method)
			return result
		}
		request("initialize", `{"protocolVersion":"2025-11-25","capabilities":{}}`)
		for range 2 {
			result := request("tools/call", `{"name":"run","arguments":`+arguments+`}`)
			said, _ := mcp.TextOf(result.Content[len(result.Content)-1])
			end := called{text: said, isError: result.IsError}
			newest, _, err := runner.Newest(t.Context(), 1, "", false)
			for before := ""; err == nil && len(newest) == 1 && newest[0].Tool != "run"; {
				before = newest[0].ID
				newest, _, err = runner.Newest(t.Context(), 1, before, false)
			}
			if err != nil || len(newest) != 1 {
				t.Fatal(newest, err)
			}
			if _, err := tasks.Tail(t.Context(), newest[0].Log, 0, func(b partials.Batch) error {
				for _, chunk := range b.Chunks() {
					end.log += string(chunk.Plain())
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			ends = append(ends, end)
		}
		_ = in.Close()
		for lines.Scan() {
			continue
		}
	})
	if len(ends) == 2 && (ends[0].text != ends[1].text || ends[0].isError != ends[1].isError) {
		t.Errorf("the first call: %q, the second: %q", ends[0].text, ends[1].text)
	}
	return ends[len(ends)-1]
}

// Values go from step to step, in their types; what does not hold is skipped, with what needs it; a failure
// ends the call, unless the step says otherwise.
func TestRuns(t *testing.T) {
	for text, want := range map[string]called{
		`{input: {n: {type: integer}}, steps: [{id: one, tool: a, with: {x: "{{n}}"}}, {id: two, tool: a, with: {x: "[{{steps.one.output}}]"}}]}`: {
			text: "one: completed\ntwo: completed\n\ntwo:\na([a(5)])\n"},
		`{steps: [{id: one, tool: b, continueOnError: true}, {id: two, tool: a, when: "{{steps.one.status}} == failed", with: {x: s}}]}`: {
			text: "one: failed: no\ntwo: completed\n\ntwo:\na(s)\n"},
		`{steps: [{id: one, tool: a, when: "no"}, {id: two, tool: a, needs: [one]}]}`: {
			text: "one: skipped: when: no does not hold\ntwo: skipped: one was skipped\n"},
		"{steps: [{id: one, tool: inner}, {id: two, tool: a, with: {x: '{{steps.one.output}}'}}]}\n  inner: {steps: [{id: in, tool: a}]}": {
			text: "one: completed\ntwo: completed\n\ntwo:\na(in: completed\n\nin:\na(<nil>))\n"},
		`{steps: [{id: one, tool: b}, {id: two, tool: a, needs: [one]}]}`: {isError: true,
			text: "one: failed: no\ntwo: skipped: one has failed\n"},
		`{steps: [{id: one, tool: b, retry: {times: 2, backoff: 5s}}]}`: {isError: true, text: "one: failed: no\n"},
		`{steps: [{id: one, tool: a, foreach: "x\n\ny\n", with: {x: "{{item}}"}}, {id: two, tool: a, with: {x: "{{steps.one.output}}"}}]}`: {
			text: "one: completed\ntwo: completed\n\ntwo:\na(a(x)\na(y))\n"},
		`{input: {n: {type: integer}}, steps: [{id: one, tool: a, foreach: "[1, {{n}}, [2]]", with: {x: "{{item}}"}}]}`: {
			text: "one: completed\n\none:\na(1)\na(5)\na([2])\n"},
	} {
		arguments := `{}`
		if strings.Contains(text, "input") {
			arguments = `{"n":5}`
		}
		got := callSteps(t, fake.Memory(), "    "+text, arguments, func(tool, x string) (string, error) {
			if tool == "b" {
				return "", errors.New("no")
			}
			return "a(" + x + ")", nil
		})
		if strings.Contains(text, "retry") && strings.Count(got.log, "begins as task") != 3 {
			t.Errorf("%s: %s", text, got.log)
		}
		if got.log = ""; got != want {
			t.Errorf("%s:\n%+v, want\n%+v", text, got, want)
		}
	}
}

// Items are noted with little more than a write each, and leave little behind. More than a thousand are refused.
func TestNotesOfManyItems(t *testing.T) {
	state := &noting{Alone: fake.Memory()}
	list := func(n int) string {
		return `{"list":` + strings.ReplaceAll(fmt.Sprintf("[%*s]", n, "1"), " ", "0,") + `}`
	}
	const text = `    {input: {list: {type: array, items: {type: integer}}}, steps: [
      {id: one, tool: a, foreach: "{{list}}", with: {x: "{{item}}"}}, {id: two, tool: a, needs: [one]}]}`
	said := func(string, string) (string, error) { return "", nil }
	got := callSteps(t, state, text, list(200), said)
	if got.isError || got.text != "one: completed\ntwo: completed\n\ntwo:\n\n" {
		t.Errorf("%.200q", got.text)
	}
	t.Logf("two calls of 200 items: %d writes of %d KiB, notes of up to %d KiB, of which %d stay", state.writes,
		state.bytes>>10, state.most>>10, state.last>>10)
	if state.writes > 2*210 || state.most > 40<<10 {
		t.Errorf("%d writes, notes of up to %d bytes", state.writes, state.most)
	}
	if state.last > 12<<10 {
		t.Errorf("the notes that stay have %d bytes", state.last)
	}
	if got := callSteps(t, state, text, list(1001), said); !got.isError || !strings.Contains(got.text, "1001 items: the limit is 1000") {
		t.Errorf("%.200q", got.text)
	}
}

// Arguments that are too long to be stored do not fail the call: it only cannot go on in another process.
func TestLongArguments(t *testing.T) {
	state := &noting{Alone: fake.Memory()}
	const text = `    {input: {x: {type: string}}, steps: [{id: one, tool: a, with: {x: "{{x}}"}}]}`
	said := func(_, x string) (string, error) { return fmt.Sprint(len(x)), nil }
	for length, line := range map[int]string{20_000: "", 200_000: "[the arguments have 200008 bytes: more than 131072 are not stored: these steps end with this runnel]\n",
		2_000_000: "[the arguments have 2000008 bytes: more than 131072 are not stored: these steps end with this runnel]\n"} {
		state.writes = 0
		got := callSteps(t, state, text, `{"x":"`+strings.Repeat("x", length)+`"}`, said)
		if got.isError || !strings.Contains(got.text, fmt.Sprintf("one:\n%d\n", length)) || !strings.HasPrefix(got.log, line+"one: begins") {
			t.Errorf("%d: %.300q, %.300q", length, got.text, got.log)
		}
		if (state.writes > 0) != (line == "") {
			t.Errorf("%d: %d writes", length, state.writes)
		}
	}
}

// A circle is found however many ways lead on; a deep tree of steps is none.
func TestManyWays(t *testing.T) {
	for _, last := range []string{"x", "s0"} {
		text := "tools:\n  x: {command: [true]}\n"
		for i := range 60 {
			next := fmt.Sprintf("s%d", i+1)
			if i == 59 {
				next = last
			}
			text += fmt.Sprintf("  s%d: {steps: [{id: a, tool: %s}, {id: b, tool: %[2]s}, {id: c, tool: %[2]s}]}\n", i, next)
		}
		conf, err := config.Parse("f", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		_, err = All(conf, func(string) bool { return true }, "here")
		if (err != nil) != (last == "s0") || err != nil && !strings.Contains(err.Error(), "it runs itself, through s0, s1, s2") {
			t.Errorf("%s: %v", last, err)
		}
	}
}
