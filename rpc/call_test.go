package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// gate is a handler that waits for its release, by the text in params.
type gate struct {
	mu    sync.Mutex
	waits map[string]chan any
	ended map[string]error // causes of contexts that ended
}

func newGate(s *Server) *gate {
	g := &gate{waits: map[string]chan any{}, ended: map[string]error{}}
	s.Handle(Handshake, "wait", g.handle)
	return g
}

func (g *gate) open(name string) chan any {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waits[name] == nil {
		g.waits[name] = make(chan any, 1)
	}
	return g.waits[name]
}

func (g *gate) cause(name string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ended[name]
}

func (g *gate) handle(ctx context.Context, _ *Caller, params json.RawMessage) (any, error) {
	var p struct{ Name string }
	_ = json.Unmarshal(params, &p)
	select {
	case v := <-g.open(p.Name):
		if err, ok := v.(error); ok {
			return nil, err
		}
		return v, nil
	case <-ctx.Done():
		g.mu.Lock()
		defer g.mu.Unlock()
		g.ended[p.Name] = context.Cause(ctx)
		return nil, ctx.Err()
	}
}

func waitLine(id, name string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"wait","params":{"name":"` + name + `"}}`
}

type result struct {
	Text string `json:"text"`
}

func TestErrors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := NewServer(nil)
		var err error
		srv.Handle(Handshake, "fail", func(context.Context, *Caller, json.RawMessage) (any,
			error) {
			return "ignored", err
		})
		srv.Handle(Handshake, "panic",
			func(context.Context, *Caller, json.RawMessage) (any, error) { panic("boom") })
		srv.Handle(Handshake, "odd", func(context.Context, *Caller, json.RawMessage) (any,
			error) {
			return func() {}, nil
		})
		p := open(t, srv, newest())
		for _, tt := range []struct {
			err  error
			want string
		}{
			{Errorf(-32602, "no %s", "<such>"), `"error":{"code":-32602,"message":"no <such>"}`},
			{fmt.Errorf("wrapped: %w", &Error{Code: 7, Message: "m", Data: []int{1}}),
				`"error":{"code":7,"message":"m","data":[1]}`},
			{&Error{Code: 7, Message: "m", Data: func() {}},
				`"error":{"code":-32603,"message":"internal error"}`},
			{errors.New("secret"), `"error":{"code":-32603,"message":"internal error"}`},
			{context.Canceled, `"error":{"code":-32603,"message":"internal error"}`},
		} {
			err = tt.err
			p.send(`{"jsonrpc":"2.0","id":1,"method":"fail"}`)
			p.want(tt.want)
		}
		p.send(`{"jsonrpc":"2.0","id":1,"method":"panic"}`, `{"jsonrpc":"2.0","id":2,"method":"ping"}`)
		if got := strings.Join(p.got(), "\n"); !strings.Contains(got,
			`"id":1,"error":{"code":-32603,"message":"internal error"}`) ||
			!strings.Contains(got, `"id":2,"result"`) {
			t.Errorf("got %s", got)
		}
		p.send(`{"jsonrpc":"2.0","id":1,"method":"odd"}`)
		p.wantExactly(`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal error"}}`)
		p.bye()
	})
}

// A result that is JSON already is written on one line whatever it looks like.
func TestRawResult(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := open(t, echoServer(nil), newest())
		p.send("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":{\"a\" :\r[ \"<&>\" ]}}")
		p.wantExactly(`{"jsonrpc":"2.0","id":1,"result":{"a":["<&>"]}}`)
		p.bye()
	})
}

func TestIDsInFlight(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := NewServer(nil)
		g := newGate(srv)
		p := open(t, srv, newest())
		p.send(waitLine(`1`, "a"), waitLine(`"1"`, "b"), waitLine(`"\u0031x"`, "c"))
		p.want()
		p.send(waitLine(`1`, "d"), waitLine(`"1"`, "d"), waitLine(`"1x"`, "d"),
			`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		p.want(
			`"id":1,"error":{"code":-32600,"message":"the id 1 is still in flight"}`,
			`"id":"1","error":{"code":-32600`,
			`"id":"1x","error":{"code":-32600`,
			`"id":1,"error":{"code":-32600`)
		g.open("c") <- result{"c"}
		p.want(`{"jsonrpc":"2.0","id":"\u0031x","result":{"text":"c"}}`)
		g.open("a") <- result{"a"}
		p.want(`{"jsonrpc":"2.0","id":1,"result":{"text":"a"}}`)
		p.send(waitLine(`1`, "a")) // its response has gone: the id is free
		p.want()
		g.open("a") <- result{"again"}
		g.open("b") <- result{"b"}
		if got := strings.Join(p.got(), "\n"); !strings.Contains(got, `"id":1,"result":{"text":"again"}`) ||
			!strings.Contains(got, `"id":"1","result":{"text":"b"}`) {
			t.Errorf("got %s", got)
		}
		p.bye()
	})
}

func TestCancelled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := NewServer(&Options{MaxInFlight: 1})
		g := newGate(srv)
		p := open(t, srv, newest())
		for _, id := range []string{`1`, `"x\u0031"`, `"<\u0031"`} {
			p.send(waitLine(id, "a"))
			p.want()
			p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` +
				strings.Replace(id, `\u0031`, `1`, 1) + `,"reason":"because"}}`)
			p.want() // "Not send a response for the cancelled request"
			if err := g.cause("a"); err != ErrCancelled {
				t.Errorf("the handler's context ended with %v", err)
			}
		}
		p.send(waitLine(`1`, "a")) // slot and id are free
		g.open("a") <- result{"a"}
		p.want(`"id":1,"result"`)
		p.bye()
	})
}

// A request that was cancelled has no response even if its handler does not care.
func TestCancelledButFinished(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := NewServer(nil)
		var did []string
		finish := make(chan struct{})
		srv.Handle(Handshake, "stubborn", func(context.Context, *Caller, json.RawMessage) (any, error) {
			<-finish
			return After{Result: result{"late"}, Do: func() { did = append(did, "do") },
				Drop: func() { did = append(did, "drop") }}, nil
		})
		p := open(t, srv, newest())
		p.send(`{"jsonrpc":"2.0","id":1,"method":"stubborn"}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		p.want()
		close(finish)
		p.want()
		p.send(`{"jsonrpc":"2.0","id":1,"method":"stubborn"}`)
		p.want(`"result":{"text":"late"}`)
		if got := strings.Join(did, ","); got != "drop,do" {
			t.Errorf("got %s", got)
		}
		p.bye()
	})
}

// The messages that After.Do writes come after the response.
func TestAfter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := NewServer(nil)
		srv.Handle(Handshake, "go", func(ctx context.Context, c *Caller, _ json.RawMessage) (any, error) {
			return After{Result: result{"first"}, Do: func() {
				if err := c.Notify("notifications/next", map[string]int{"n": 2}); err != nil {
					t.Error(err)
				}
				if err := c.Write(ctx, func(dst []byte) []byte {
					return append(append(dst, c.Head()...),
						`,"method":"third"}`+"\n"...)
				}); err != nil {
					t.Error(err)
				}
				if err := c.Notify("fourth", nil); err != nil {
					t.Error(err)
				}
			}}, nil
		})
		p := open(t, srv, newest())
		p.send(`{"jsonrpc":"2.0","id":1,"sessionId":"s","method":"go"}`)
		p.wantExactly(
			`{"jsonrpc":"2.0","sessionId":"s","id":1,"result":{"text":"first"}}`,
			`{"jsonrpc":"2.0","sessionId":"s","method":"notifications/next","params":{"n":2}}`,
			`{"jsonrpc":"2.0","sessionId":"s","method":"third"}`,
			`{"jsonrpc":"2.0","sessionId":"s","method":"fourth"}`)
		p.bye()
	})
}

func TestMaxInFlight(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := NewServer(&Options{MaxInFlight: 2})
		g := newGate(srv)
		p := open(t, srv, newest())
		p.send(waitLine(`1`, "a"), waitLine(`2`, "b"), waitLine(`3`, "c"),
			`{"jsonrpc":"2.0","id":4,"method":"ping"}`)
		time.Sleep(slotPatience)
		p.want(`"id":3,"error":{"code":-32603,"message":"too many requests in flight: the limit is 2"}`,
			`"id":4,"result"`)
		// As soon as the client has seen an answer it may send the next request.
		for range 100 {
			g.open("a") <- result{"a"}
			p.want(`"id":1,"result"`)
			p.send(waitLine(`1`, "a"))
			p.want()
		}
		p.in.Close()
		p.want()
		g.open("a") <- nil
		g.open("b") <- nil
		if err := <-p.err; err != nil {
			t.Error(err)
		}
	})
}

// Calls that come faster than they are answered wait for a slot while slots become free.
func TestReaderWaitsForASlot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := NewServer(&Options{MaxInFlight: 4})
		srv.Handle(Handshake, "quick", func(context.Context, *Caller, json.RawMessage) (any, error) {
			time.Sleep(slotPatience - time.Millisecond)
			return result{"done"}, nil
		})
		p := open(t, srv, newest())
		var burst []string
		for i := range 100 {
			burst = append(burst, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"quick"}`, i))
		}
		p.send(burst...)
		time.Sleep(25 * slotPatience)
		lines := p.got()
		for _, line := range lines {
			if !strings.Contains(line, `"result"`) {
				t.Errorf("refused: %s", line)
			}
		}
		if len(lines) != len(burst) {
			t.Errorf("%d answers, want %d", len(lines), len(burst))
		}
		p.bye()
	})
}

// Calls above the limit are refused slotPatience after it was reached, and at once from then on. What was
// answered before is not held up.
func TestLongCallsAboveTheLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := NewServer(&Options{MaxInFlight: 2})
		g := newGate(srv)
		p := open(t, srv, newest())
		const refused = `"error":{"code":-32603,"message":"too many requests in flight: the limit is 2"}`
		p.send(waitLine(`1`, "a"), waitLine(`2`, "a"), `{"jsonrpc":"2.0","id":"y","method":"ping"}`,
			waitLine(`3`, "a"), waitLine(`4`, "a"), `{"jsonrpc":"2.0","id":"z","method":"ping"}`)
		p.want(`"id":"y","result"`)
		time.Sleep(slotPatience)
		p.want(`"id":3,`+refused, `"id":4,`+refused, `"id":"z","result"`)
		p.send(waitLine(`5`, "a"))
		p.want(`"id":5,` + refused)
		p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		p.want()
		p.send(waitLine(`6`, "a"))
		p.want() // it has a slot
		p.in.Close()
		g.open("a") <- nil
		g.open("a") <- nil
		if err := <-p.err; err != nil {
			t.Error(err)
		}
	})
}

// A client that sends and does not read gets MaxInFlight answers buffered (and as many being written), not
// more.
func TestSlotsOfUnreadAnswers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := echoServer(&Options{MaxInFlight: 10})
		ran := 0
		var mu sync.Mutex
		srv.Handle(Handshake, "count", func(context.Context, *Caller, json.RawMessage) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			ran++
			return nil, nil
		})
		p := connect(t, srv)
		p.send(initializeLine(newest()))
		for i := range 1000 {
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"count"}`, i))
			p.got()
		}
		if ran > 20 {
			t.Errorf("%d answers are buffered for a client that does not read", ran)
		}
		close(p.read)
		if lines := p.got(); len(lines) != 1001 {
			t.Errorf("got %d answers, want each", len(lines))
		}
		p.bye()
	})
}

// Params of requests in flight are bounded together; a single one always fits.
func TestInFlightBytes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := NewServer(&Options{MaxLine: 1000})
		g := newGate(srv)
		p := open(t, srv, newest())
		big := strings.Repeat("x", 880)
		for i := range 5 {
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"wait","params":{"x":"%s"}}`, i, big))
		}
		p.want(`"id":4,"error":{"code":-32603,"message":"requests in flight are too large together: the limit is 4000 bytes"}`)
		for range 4 {
			g.open("") <- nil
			p.want(`"result"`)
		}
		p.bye()
	})
}
