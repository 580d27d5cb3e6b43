package rpc

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A request may be answered while its handler goes on. Its id is free then, and the handler's result does not count.
func TestAnswerBeforeTheHandlerReturns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := NewServer(nil)
		var c *Caller
		release := make(chan struct{})
		srv.Handle(Handshake, "long", func(_ context.Context, caller *Caller, _ json.RawMessage) (any, error) {
			c = caller
			<-release
			return result{"late"}, nil
		})
		p := open(t, srv, newest())
		p.send(`{"jsonrpc":"2.0","id":1,"method":"long"}`)
		p.got()
		done := false
		c.Answer(After{Result: result{"early"}, Do: func() { done = true }}, nil)
		c.Answer(result{"twice"}, nil)
		p.want(`{"text":"early"}`)
		if !done {
			t.Error("what stands behind the answer was not done")
		}
		first := c
		p.send(`{"jsonrpc":"2.0","id":1,"method":"long"}`)
		close(release)
		p.want(`{"text":"late"}`)
		if c == first {
			t.Error("the second request did not run")
		}
	})
}

// OnCancel tells of a request that its client cancels, of one that the end of the session cancels, and of one whose context
// had ended before anybody asked.
func TestOnCancel(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := NewServer(nil)
		told := map[string]error{}
		srv.Handle(Handshake, "watched", func(ctx context.Context, c *Caller, params json.RawMessage) (any, error) {
			if strings.Contains(string(params), "late") {
				<-ctx.Done()
			}
			done := make(chan struct{})
			c.OnCancel(func() {
				told[string(c.ID())] = context.Cause(ctx)
				c.Answer(nil, context.Cause(ctx))
				close(done)
			})
			<-done
			return result{"ignored"}, nil
		})
		p := open(t, srv, newest())
		for id := 1; id <= 3; id++ {
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"watched","params":{"n":"%s"}}`, id, map[int]string{2: "late"}[id]))
			p.want()
		}
		for id := 1; id <= 2; id++ {
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id))
			p.want()
		}
		if err := p.bye(); err != nil {
			t.Error(err)
		}
		p.want(`"error":{"code":-32603,"message":"server is shutting down"}`)
		if told["1"] != ErrCancelled || told["2"] != ErrCancelled || told["3"] != ErrShutdown || len(told) != 3 {
			t.Errorf("told %v", told)
		}
	})
}

// Of a request that is cancelled again and again, and by the end of the session, OnCancel tells once: each telling is a goroutine.
func TestOnCancelTellsOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := NewServer(nil)
		told := make(chan struct{}, 10)
		srv.Handle(Handshake, "watched", func(ctx context.Context, c *Caller, _ json.RawMessage) (any, error) {
			c.OnCancel(func() { told <- struct{}{} })
			<-ctx.Done()
			time.Sleep(2 * defaultDrain) // so that it is there at the end of the session
			return nil, ctx.Err()
		})
		p := open(t, srv, newest())
		p.send(`{"jsonrpc":"2.0","id":1,"method":"watched"}`)
		p.want()
		for range 3 {
			p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		}
		p.want()
		if err := p.bye(); err != nil {
			t.Error(err)
		}
		if n := len(told); n != 1 {
			t.Errorf("told %d times", n)
		}
	})
}

// A Latch stays set, whoever waits for it and when.
func TestLatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e Latch
		waiting := e.Done()
		woken := false
		go func() { <-waiting; woken = true }()
		synctest.Wait()
		if e.IsSet() || woken {
			t.Error("set too soon")
		}
		e.Set()
		e.Set()
		synctest.Wait()
		if <-e.Done(); !e.IsSet() || !woken {
			t.Error("not set")
		}
		var early Latch
		early.Set()
		<-early.Done()
	})
}
