package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"runnel/internal/signal"
	"runnel/rpc/mcp"
)

// noted is an output that keeps its lines. Until it is open, it takes nothing.
type noted struct {
	open signal.Latch

	mu    sync.Mutex
	lines []string
	last  bool
}

func openNoted() *noted {
	n := &noted{}
	n.open.Set()
	return n
}

func (n *noted) WriteLines(ctx context.Context, lines []byte, last bool) error {
	select {
	case <-n.open.Done():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for text := range strings.Lines(string(lines)) {
		n.lines = append(n.lines, strings.TrimSpace(text))
	}
	n.last = last
	return nil
}

func (n *noted) wants(t *testing.T, last bool, lines ...string) {
	t.Helper()
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	if !slices.Equal(n.lines, lines) || n.last != last {
		t.Errorf("%q, last %v, want %q", n.lines, n.last, lines)
	}
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`

// carried is a session whose lines are brought, opened by initialize, with what goes out by no exchange.
func carried(t *testing.T, s *Server) (*Session, *noted) {
	standing := openNoted()
	c := s.NewSession(standing)
	take(t, c, initialize)
	t.Cleanup(func() { c.End(ErrCancelled); c.Close() })
	return c, standing
}

func take(t *testing.T, c *Session, line string) (*Exchange, *noted) {
	t.Helper()
	out := openNoted()
	x, err := c.Take([]byte(line), out)
	if err != nil {
		t.Fatal(err)
	}
	return x, out
}

// Each line has an output of its own, and that learns which line is the last: as soon as it is written.
func TestExchangesEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := NewServer(nil)
		s.Handle(Handshake, "work", func(_ context.Context, c *Caller, _ json.RawMessage) (any, error) {
			return nil, c.Notify("n", nil)
		})
		s.Handle(Handshake, "large", func(context.Context, *Caller, json.RawMessage) (any, error) {
			return strings.Repeat("x", 2*largeReply), nil
		})
		c, standing := carried(t, s)
		_, out := take(t, c, `{"jsonrpc":"2.0","id":1,"method":"work"}`)
		out.wants(t, true, `{"jsonrpc":"2.0","method":"n"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`)
		_, out = take(t, c, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		out.wants(t, true, `{"jsonrpc":"2.0","id":1,"result":{}}`)
		_, out = take(t, c, `{"jsonrpc":"2.0","id":1,"method":"large"}`)
		out.wants(t, true, `{"jsonrpc":"2.0","id":1,"result":"`+strings.Repeat("x", 2*largeReply)+`"}`)
		x, out := take(t, c, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		<-x.w.done
		out.wants(t, true)
		_, out = take(t, c, `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`)
		out.wants(t, true, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"\"id\" is neither a string nor an integer"}}`)
		standing.wants(t, false)
	})
}

// The messages of a request go by its exchange while that is held, and with those that belong to no request
// after that.
func TestExchangeHeld(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := NewServer(nil)
		var caller *Caller
		var end func()
		s.Handle(Handshake, "work", func(_ context.Context, c *Caller, _ json.RawMessage) (any, error) {
			caller, end = c, c.Hold()
			return nil, nil
		})
		c, standing := carried(t, s)
		x, out := take(t, c, `{"jsonrpc":"2.0","id":1,"method":"work"}`)
		out.wants(t, false, `{"jsonrpc":"2.0","id":1,"result":{}}`)
		caller.Write(t.Context(), line("partial"))
		out.wants(t, false, `{"jsonrpc":"2.0","id":1,"result":{}}`, "partial")
		end()
		end()
		<-x.w.done
		caller.Write(t.Context(), line("later"))
		caller.Notify("n", nil)
		standing.wants(t, false, "later", `{"jsonrpc":"2.0","method":"n"}`)
		out.wants(t, true, `{"jsonrpc":"2.0","id":1,"result":{}}`, "partial")
	})
}

// A question goes to whom the request came from, and its answer comes with a line of its own.
func TestExchangeAsks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := NewServer(nil)
		s.Handle(Handshake, "work", func(ctx context.Context, c *Caller, _ json.RawMessage) (any, error) {
			var r mcp.ElicitResult
			err := c.Request(ctx, "elicitation/create", nil, &r)
			return r.Action, err
		})
		c, _ := carried(t, s)
		x, out := take(t, c, `{"jsonrpc":"2.0","id":1,"method":"work"}`)
		question := `{"jsonrpc":"2.0","id":1,"method":"elicitation/create"}`
		out.wants(t, false, question)
		take(t, c, `{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}`)
		<-x.w.done
		out.wants(t, true, question, `{"jsonrpc":"2.0","id":1,"result":"accept"}`)
	})
}

// A question in an exchange that is abandoned has no answer any more.
func TestAbandonedQuestion(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := NewServer(nil)
		asked := make(chan error, 1)
		s.Handle(Handshake, "ask", func(ctx context.Context, c *Caller, _ json.RawMessage) (any, error) {
			err := c.Request(ctx, "elicitation/create", nil, nil)
			asked <- err
			return nil, err
		})
		c, _ := carried(t, s)
		x, out := take(t, c, `{"jsonrpc":"2.0","id":1,"method":"ask"}`)
		out.wants(t, false, `{"jsonrpc":"2.0","id":1,"method":"elicitation/create"}`)
		x.Abandon()
		if err := <-asked; !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
}

// A slow output holds up its own exchange alone, and what nobody takes ends with the session.
func TestExchangesDoNotWaitForEachOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := NewServer(nil)
		c := s.NewSession(nil)
		stalled := &noted{}
		x, err := c.Take([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`), stalled)
		if err != nil {
			t.Fatal(err)
		}
		_, out := take(t, c, `{"jsonrpc":"2.0","id":2,"method":"ping"}`)
		out.wants(t, true, `{"jsonrpc":"2.0","id":2,"result":{}}`)
		stalled.wants(t, false)
		c.End(ErrShutdown)
		c.Close()
		<-x.w.done
		if _, err := c.Take([]byte(initialize), out); err != ErrClosed {
			t.Error(err)
		}
	})
}

// Calls of a session whose lines are brought do not wait for its end: their client may come back with
// another.
func TestSessionIsNotPatient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := NewServer(&Options{Drain: -1})
		s.Handle(Handshake, "work", func(_ context.Context, c *Caller, _ json.RawMessage) (any,
			error) {
			return c.Patient(), nil
		})
		c, _ := carried(t, s)
		_, out := take(t, c, `{"jsonrpc":"2.0","id":1,"method":"work"}`)
		out.wants(t, true, `{"jsonrpc":"2.0","id":1,"result":false}`)
	})
}

// A session's end cancels its requests, which are not answered.
func TestSessionCancelled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := NewServer(nil)
		s.Handle(Handshake, "work", func(ctx context.Context, _ *Caller, _ json.RawMessage) (any, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
		c, _ := carried(t, s)
		x, out := take(t, c, `{"jsonrpc":"2.0","id":1,"method":"work"}`)
		c.End(ErrCancelled)
		<-x.w.done
		out.wants(t, true)
	})
}

// Requests whose answers nobody takes any more free their slots, whether they are answered before or after.
func TestAbandonedSlots(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := NewServer(&Options{MaxInFlight: 4})
		resume := make(chan struct{})
		s.Handle(Handshake, "work", func(context.Context, *Caller, json.RawMessage) (any, error) {
			<-resume
			return nil, nil
		})
		s.Handle(Handshake, "large", func(context.Context, *Caller, json.RawMessage) (any, error) {
			<-resume
			return strings.Repeat("x", 2*largeReply), nil
		})
		c, _ := carried(t, s)
		later, _ := take(t, c, `{"jsonrpc":"2.0","id":1,"method":"work"}`)
		var full []*Exchange
		for i, method := range []string{"work", "large"} {
			stalled := &noted{}
			x, err := c.Take(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%q}`, 2+i, method), stalled)
			if err != nil {
				t.Fatal(err)
			}
			_ = x.w.now([]byte("first\n"))
			synctest.Wait()
			full = append(full, x)
		}
		later.Abandon()
		close(resume)
		synctest.Wait()
		for _, x := range full {
			x.Abandon()
		}
		synctest.Wait()
		if n := c.incoming.slots; n != 0 {
			t.Errorf("%d slots are taken", n)
		}
	})
}

// A session can end while a line of it is being taken: Close waits for what that has opened, too.
func TestCloseWhileALineIsTaken(t *testing.T) {
	t.Parallel()
	for range 1000 {
		c := NewServer(&Options{}).NewSession(openNoted())
		var both sync.WaitGroup
		both.Go(func() { _, _ = c.Take([]byte(initialize), openNoted()) }) // it may come too late
		both.Go(func() { c.End(ErrCancelled); c.Close() })
		both.Wait()
	}
}
