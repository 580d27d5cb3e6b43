package tools

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks/methods"
	"runnel/tasks/run"
)

// statelessClient speaks to a server with one tool.
type statelessClient struct {
	t     *testing.T
	in    io.WriteCloser
	lines chan string
}

func serveStateless(t *testing.T, tool Tool) *statelessClient {
	t.Helper()
	registry := &Registry{}
	if err := registry.Add(tool); err != nil {
		t.Fatal(err)
	}
	return serveRegistry(t, registry)
}

func serveRegistry(t *testing.T, registry *Registry) *statelessClient {
	t.Helper()
	return serveWithFallback(t, registry, "never")
}

func serveWithFallback(t *testing.T, registry *Registry, fallbackTools string) *statelessClient {
	t.Helper()
	srv := rpc.NewServer(nil)
	runner := run.NewRunner(run.Options{})
	methods.Register(srv, runner)
	Serve(srv, registry, runner, ServeOptions{ImmediateWait: 100 * time.Millisecond, FallbackTools: fallbackTools})
	inReader, in := io.Pipe()
	out, outWriter := io.Pipe()
	c := &statelessClient{t: t, in: in, lines: make(chan string, 1000)}
	served, read := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(context.Background(), inReader, outWriter)
		runner.Close()
		_ = outWriter.Close()
	}()
	go func() {
		defer close(read)
		s := bufio.NewScanner(out)
		for s.Buffer(nil, 64<<20); s.Scan(); {
			c.lines <- s.Text()
		}
	}()
	t.Cleanup(func() { _ = in.Close(); <-served; <-read })
	return c
}

// call calls the tool with SEP-2998 and a progress token.
func (c *statelessClient) call(id int, more string) {
	c.t.Helper()
	c.callTool(id, "tool", more)
}

func (c *statelessClient) callTool(id int, tool, more string) {
	c.t.Helper()
	const meta = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"partialResults":{}},"progressToken":%d,"partialResultToken":%d}`
	if _, err := fmt.Fprintf(c.in,
		`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"_meta":`+meta+`%s}}`+"\n",
		id, tool, id, id, more); err != nil {
		c.t.Fatal(err)
	}
}

func (c *statelessClient) next() string {
	c.t.Helper()
	select {
	case line := <-c.lines:
		return line
	case <-time.After(time.Minute):
		c.t.Fatal("nothing came")
		return ""
	}
}

// response is the next line that is a response.
func (c *statelessClient) response() string {
	c.t.Helper()
	for {
		if line := c.next(); strings.HasPrefix(line, `{"jsonrpc":"2.0","id":`) {
			return line
		}
	}
}

func (c *statelessClient) silence() {
	c.t.Helper()
	time.Sleep(time.Minute) // virtual
	synctest.Wait()
	select {
	case line := <-c.lines:
		c.t.Fatalf("no silence: %s", line)
	default:
	}
}

// While a call is parked its tool may go on working: what it writes waits for the client to come back, and
// what it reports is lost, but nothing of it goes out, and nothing waits for it.
func TestParkedCallIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tool := &Function{
			Tool: mcp.Tool{Name: "tool", InputSchema: json.RawMessage(`{"type":"object"}`),
				Execution: &mcp.ToolExecution{TaskSupport: mcp.TaskOptional}},
			Do: func(ctx context.Context, call *Call, out *Output) (*mcp.CallToolResult, error) {
				_ = out.WriteString("before\n")
				working := make(chan struct{})
				go func() {
					defer close(working)
					time.Sleep(time.Second)
					out.Progress(1, 2, "")
					_ = out.WriteString("meanwhile\n")
				}()
				answer, err := call.Ask(ctx, Question{Message: "Why?",
					Schema: json.RawMessage(`{"type":"object","properties":{}}`)})
				<-working
				if err != nil {
					return nil, err
				}
				out.Progress(2, 2, "")
				_ = out.WriteString("after\n")
				return mcp.Result(string(answer.Action)), nil
			},
		}
		c := serveStateless(t, tool)
		c.call(1, "")
		var first struct{ Result mcp.InputRequiredResult }
		if err := json.Unmarshal([]byte(c.response()), &first); err != nil {
			t.Fatal(err)
		}
		state := first.Result.RequestState
		c.silence()
		c.call(2, `,"requestState":"`+state+`","inputResponses":{"question-1":{"action":"decline"}}`)
		var text strings.Builder
		for {
			line := c.next()
			if strings.Contains(line, `"id":2,`) {
				if !strings.Contains(line, "decline") {
					t.Errorf("result %s", line)
				}
				break
			}
			var m struct {
				Params struct {
					Token   int `json:"partialResultToken"`
					Content []struct{ Text string }
				}
			}
			_ = json.Unmarshal([]byte(line), &m)
			for _, item := range m.Params.Content {
				text.WriteString(item.Text)
			}
			if strings.Contains(line, `"partialResultToken":1`) ||
				strings.Contains(line, `"progressToken":1`) {
				t.Errorf("%s belongs to the first request", line)
			}
		}
		if got := text.String(); !strings.HasSuffix("before\nmeanwhile\nafter\n", got) ||
			!strings.HasPrefix(got, "before") && !strings.HasPrefix(got, "meanwhile") {
			t.Errorf("the second request carried %q", got)
		}
	})
}

// A client that takes a task's output by a subscription misses nothing of it, however long it takes to
// subscribe: memory lets go of nothing meanwhile.
func TestOutputWaitsForTheSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 32 << 20 // four times what memory keeps
		log := make(chan *partials.Log, 1)
		c := serveStateless(t, &Function{
			Tool: mcp.Tool{Name: "tool", InputSchema: json.RawMessage(`{"type":"object"}`),
				Execution: &mcp.ToolExecution{TaskSupport: mcp.TaskOptional}},
			Do: func(_ context.Context, _ *Call, out *Output) (*mcp.CallToolResult, error) {
				log <- out.Log()
				return nil, out.WriteString(strings.Repeat("x", size))
			},
		})
		const meta = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"partialResults":{},` +
			`"extensions":{"io.modelcontextprotocol/tasks":{},"runnel/task-partials":{}}},"partialResultToken":1}`
		if _, err := io.WriteString(c.in,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tool","_meta":`+meta+`}}`+
				"\n"); err != nil {
			t.Fatal(err)
		}
		if line := c.response(); !strings.Contains(line, `"taskId"`) {
			t.Fatal(line)
		}
		time.Sleep(time.Second) // virtual
		r := (<-log).NewReader(0)
		defer r.Close()
		for r.Pos() < size {
			if err := r.Wait(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			if b, _ := r.Next(1 << 20); b.Lost {
				t.Fatalf("%d bytes were let go", b.End-b.Start)
			}
		}
	})
}

// If several requests come back for one call at once, one goes on with it, whatever else happens to it.
func TestOneComesBack(t *testing.T) {
	tool := &Function{
		Tool: mcp.Tool{Name: "tool", InputSchema: json.RawMessage(`{"type":"object"}`),
			Execution: &mcp.ToolExecution{TaskSupport: mcp.TaskOptional}},
		Do: func(ctx context.Context, call *Call, _ *Output) (*mcp.CallToolResult, error) {
			for range 2 {
				if _, err := call.Ask(ctx, Question{Message: "Why?",
					Schema: json.RawMessage(`{"type":"object","properties":{}}`)}); err != nil {
					return nil, err
				}
			}
			return mcp.Result("done"), nil
		},
	}
	c := serveStateless(t, tool)
	id := 0
	back := func(state string) (next, text string, refused int) {
		const n = 4
		for range n {
			id++
			c.call(id, `,"requestState":"`+state+
				`","inputResponses":{"question-1":{"action":"accept"},"question-2":{"action":"accept"}}`)
		}
		for range n {
			var m struct {
				Result struct {
					mcp.InputRequiredResult
					Content []struct{ Text string }
				}
				Error *rpc.Error
			}
			line := c.response()
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				t.Fatal(err)
			}
			switch {
			case m.Error != nil && m.Error.Code == mcp.CodeInvalidParams:
				refused++
			case m.Result.RequestState != "":
				next = m.Result.RequestState
			case len(m.Result.Content) == 1:
				text = m.Result.Content[0].Text
			default:
				t.Fatal(line)
			}
		}
		return next, text, refused
	}
	for range 100 {
		id++
		c.call(id, "")
		var first struct{ Result mcp.InputRequiredResult }
		if err := json.Unmarshal([]byte(c.response()), &first); err != nil {
			t.Fatal(err)
		}
		second, _, refused := back(first.Result.RequestState)
		if second == "" || refused != 3 {
			t.Fatalf("state %q, %d refused", second, refused)
		}
		if _, text, refused := back(second); text != "done" || refused != 3 {
			t.Fatalf("result %q, %d refused", text, refused)
		}
	}
}

// Questions that are asked at once go out in one line, which is bounded: what is too much comes when others
// are answered.
func TestManyQuestionsComeInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const questions = 2*maxTurns + 1
		longest := Question{
			Message: strings.Repeat("\x01", maxQuestion),
			Schema: rawjson.Encode(map[string]any{"type": "object",
				"title": strings.Repeat("x", MaxQuestionSchema-len(`{"title":"","type":"object"}`))}),
		}
		tool := &Function{
			Tool: mcp.Tool{Name: "tool", InputSchema: json.RawMessage(`{"type":"object"}`)},
			Do: func(ctx context.Context, call *Call, _ *Output) (*mcp.CallToolResult, error) {
				answers := make(chan error, questions)
				for range questions {
					go func() {
						_, err := call.Ask(ctx, longest)
						answers <- err
					}()
				}
				for range questions {
					if err := <-answers; err != nil {
						return nil, err
					}
				}
				return mcp.Result("done"), nil
			},
		}
		c := serveStateless(t, tool)
		c.call(1, "")
		answered := 0
		for id := 2; ; id++ {
			line := c.response()
			var m struct{ Result mcp.InputRequiredResult }
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				t.Fatal(err)
			}
			if m.Result.RequestState == "" {
				if answered != questions || !strings.Contains(line, "done") {
					t.Errorf("%d questions, then %s", answered, line)
				}
				return
			}
			if n := len(m.Result.InputRequests); n > maxTurns || len(line)*maxTurns > n<<20 {
				t.Fatalf("%d questions at once, in %d bytes", n, len(line))
			}
			responses := map[string]any{}
			for key := range m.Result.InputRequests {
				responses[key] = mcp.ElicitResult{Action: mcp.ElicitDecline}
			}
			answered += len(responses)
			c.call(id, fmt.Sprintf(`,"requestState":%q,"inputResponses":%s`, m.Result.RequestState,
				rawjson.Encode(responses)))
		}
	})
}
