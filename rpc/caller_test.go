package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

// asker asks the client what its own params say.
func asker() *Server {
	s := NewServer(nil)
	s.Handle(Handshake, "ask", func(ctx context.Context, c *Caller, _ json.RawMessage) (any, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		var answer json.RawMessage
		if err := c.Request(ctx, "elicitation/create", map[string]string{"message": "?"},
			&answer); err != nil {
			return nil, err
		}
		return answer, nil
	})
	return s
}

func TestRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := open(t, asker(), newest())
		p.send(`{"jsonrpc":"2.0","id":7,"method":"ask"}`)
		p.wantExactly(`{"id":1,"jsonrpc":"2.0","method":"elicitation/create","params":{"message":"?"}}`)
		// No answers to this.
		p.send(`{"jsonrpc":"2.0","id":"one","result":{}}`, `{"jsonrpc":"2.0","id":2,"result":{}}`)
		p.want()
		p.send(`{"jsonrpc":"2.0","id":1,"result":{"n":1e999}}`)
		p.wantExactly(`{"jsonrpc":"2.0","id":7,"result":{"n":1e999}}`)
		p.send(`{"jsonrpc":"2.0","id":1,"result":{}}`) // twice
		p.want()

		p.send(`{"jsonrpc":"2.0","id":7,"sessionId":"s","method":"ask"}`)
		p.wantExactly(`{"id":2,"jsonrpc":"2.0","method":"elicitation/create","params":{"message":"?"},"sessionId":"s"}`)
		p.send(`{"jsonrpc":"2.0","id":2,"error":{"code":-5,"message":"no","data":{"a":1}}}`)
		p.wantExactly(`{"jsonrpc":"2.0","sessionId":"s","id":7,"error":{"code":-5,"message":"no","data":{"a":1}}}`)

		p.send(`{"jsonrpc":"2.0","id":7,"method":"ask"}`)
		p.want(`"id":3`)
		p.send(`{"jsonrpc":"2.0","id":3,"error":"odd"}`)
		p.want(`"id":7,"error":{"code":0`)
		p.bye()
	})
}

func TestRequestEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := open(t, asker(), newest())
		p.send(`{"jsonrpc":"2.0","id":7,"method":"ask"}`)
		p.want(`"id":1`)
		time.Sleep(2 * time.Minute) // in the bubble's time
		p.want(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"context deadline exceeded"}}`, `"id":7,"error":{"code":-32603`)
		p.send(`{"jsonrpc":"2.0","id":1,"result":{}}`) // late
		p.want()

		p.send(`{"jsonrpc":"2.0","id":7,"method":"ask"}`)
		p.want(`"id":2`)
		begin := time.Now()
		if err := p.bye(); err != nil {
			t.Error(err)
		}
		if d := time.Since(begin); d != 0 { // no answer can come any more: that does not wait for the drain
			t.Errorf("took %v to end", d)
		}
		p.want(`"id":7,"error":{"code":-32603`)
	})
}

func TestCallerOutlivesTheSession(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := NewServer(nil)
		var c *Caller
		srv.Handle(Handshake, "who", func(_ context.Context, caller *Caller, _ json.RawMessage) (any, error) {
			c = caller
			return nil, nil
		})
		p := open(t, srv, newest())
		p.send(`{"jsonrpc":"2.0","id":7,"method":"who"}`)
		p.want(`"id":7`)
		p.bye()
		if err := c.Notify("x", nil); !errors.Is(err, ErrClosed) {
			t.Errorf("Notify: %v", err)
		}
		if err := c.Request(t.Context(), "x", nil, nil); !errors.Is(err, ErrClosed) {
			t.Errorf("Request: %v", err)
		}
		if err := c.Write(t.Context(),
			func(dst []byte) []byte { t.Error("encoded"); return dst }); !errors.Is(err, ErrClosed) {
			t.Errorf("Write: %v", err)
		}
	})
}

// Questions that are taken back are forgotten, here and in the Conn, though the client never answers them.
func TestTakenBackQuestionsAreForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const many = 100
		var session *session
		s := NewServer(nil)
		s.Handle(Handshake, "ask", func(ctx context.Context, c *Caller, _ json.RawMessage) (any, error) {
			session = c.session
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return nil, c.Request(ctx, "elicitation/create", nil, nil)
		})
		p := open(t, s, newest())
		for i := range many {
			p.send(`{"jsonrpc":"2.0","id":7,"method":"ask"}`)
			p.want(`"elicitation/create"`)
			time.Sleep(2 * time.Second) // in the bubble's time
			p.want(`"notifications/cancelled"`, `"id":7,"error"`)
			if asked, moot := len(session.outgoing.waiting), len(session.conn.answers); asked > 0 ||
				moot > 1 {
				t.Fatalf("after %d questions: %d wait for an answer, %d to be forgotten", i+1, asked, moot)
			}
		}
		p.send(`{"jsonrpc":"2.0","id":1,"result":{}}`) // late
		p.want()
		p.bye()
	})
}

// early is a question's params; while they are encoded the client answers.
type early struct{ answer func() }

func (e early) MarshalJSON() ([]byte, error) {
	e.answer()
	return []byte(`{}`), nil
}

// An answer that is there before its question answers nothing.
func TestAnswerBeforeTheQuestion(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := NewServer(nil)
		var p *testPeer
		s.Handle(Handshake, "ask", func(ctx context.Context, c *Caller, _ json.RawMessage) (any, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return nil, c.Request(ctx, "elicitation/create", early{func() {
				p.send(`{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}`)
				time.Sleep(time.Millisecond) // until it has been taken
			}}, nil)
		})
		p = open(t, s, newest())
		p.send(`{"jsonrpc":"2.0","id":7,"method":"ask"}`)
		time.Sleep(2 * time.Second)
		p.want(`"elicitation/create"`, `"notifications/cancelled"`, `"id":7,"error"`)
		p.bye()
	})
}

// Questions and changes that repeat wait for a client that does not read: nothing piles up.
func TestRepeatedQuestionsWaitForRoom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const many = 1000
		text := strings.Repeat("x", 20<<10)
		unread := make(chan int, 1)
		s := NewServer(nil)
		s.Handle(Handshake, "ask", func(ctx context.Context, c *Caller, _ json.RawMessage) (any, error) {
			for range many {
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				if err := c.Request(ctx, "elicitation/create", text, nil); !errors.Is(err,
					context.DeadlineExceeded) {
					t.Errorf("Request: %v", err)
				}
				_ = c.NotifyWait(ctx, "notifications/x", text)
				cancel()
			}
			unread <- c.session.w.unread()
			return nil, nil
		})
		p := connect(t, s)
		p.send(initializeLine(newest()), `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
			`{"jsonrpc":"2.0","id":7,"method":"ask"}`)
		if n := <-unread; n > laneRoom+2*len(text) {
			t.Errorf("%d bytes wait to be read", n)
		}
		close(p.read)
		// The first question may have been written with the answer to initialize.
		if lines := p.got(); len(lines) > 4 || !strings.Contains(lines[len(lines)-1], `"id":7`) {
			t.Errorf("got %d lines", len(lines))
		}
		p.bye()
	})
}
