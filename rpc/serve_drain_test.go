package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestDrain(t *testing.T) {
	for _, tt := range []struct {
		name  string
		drain time.Duration
		takes time.Duration // the handler
		want  string
		after time.Duration // Serve returns
	}{
		{"in time", 0, time.Second, `"result":{"text":"done"}`, time.Second},
		{"too late", 0, time.Minute, `"error":{"code":-32603,"message":"server is shutting down"}`,
			DefaultDrain},
		{"a longer drain", 2 * time.Minute, time.Minute, `"result":{"text":"done"}`, time.Minute},
		{"until it is done", -1, 24 * time.Hour, `"result":{"text":"done"}`, 24 * time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				srv := NewServer(&Options{Drain: tt.drain})
				var cause error
				srv.Handle(Handshake, "work", func(ctx context.Context, _ *Caller,
					_ json.RawMessage) (any, error) {
					select {
					case <-time.After(tt.takes):
						return result{"done"}, nil
					case <-ctx.Done():
						cause = context.Cause(ctx)
						return nil, ctx.Err()
					}
				})
				p := open(t, srv, newest())
				p.send(`{"jsonrpc":"2.0","id":1,"method":"work"}`)
				begin := time.Now()
				if err := p.bye(); err != nil {
					t.Error(err)
				}
				if d := time.Since(begin); d != tt.after {
					t.Errorf("Serve returned after %v, want %v", d, tt.after)
				}
				p.want(tt.want)
				if tt.takes > tt.after && cause != ErrShutdown {
					t.Errorf("the context ended with %v", cause)
				}
			})
		})
	}
}

// With a negative Drain EOF waits for what OnDrain knows too, and what it writes is still sent.
func TestOnDrain(t *testing.T) {
	for _, drain := range []time.Duration{-1, time.Second} {
		bubble(t, func(t *testing.T) {
			srv := NewServer(&Options{Drain: drain})
			var c *Caller
			srv.Handle(Handshake, "start", func(_ context.Context, caller *Caller,
				_ json.RawMessage) (any, error) {
				c = caller
				return nil, nil
			})
			srv.OnDrain(func(ctx context.Context) {
				time.Sleep(time.Hour)
				c.Notify("ended", nil)
			})
			p := open(t, srv, newest())
			p.send(`{"jsonrpc":"2.0","id":1,"method":"start"}`)
			p.want(`"id":1`)
			if err := p.bye(); err != nil {
				t.Error(err)
			}
			if drain < 0 {
				p.want(`"method":"ended"`)
			} else {
				p.want()
			}
		})
	}
}

// A signal ends the drain.
func TestSignalDuringDrain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := NewServer(&Options{Drain: -1})
		g := newGate(srv)
		srv.OnDrain(func(ctx context.Context) { <-ctx.Done() })
		p := open(t, srv, newest())
		p.send(waitLine(`1`, "a"))
		p.in.Close()
		p.want()
		p.stop()
		if err := <-p.err; err != nil {
			t.Error(err)
		}
		if g.cause("a") != ErrShutdown {
			t.Errorf("the context ended with %v", g.cause("a"))
		}
		p.want(`"id":1,"error"`)
	})
}

// A signal ends the session although the client sends nothing.
func TestSignal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := NewServer(nil)
		g := newGate(srv)
		p := open(t, srv, newest())
		p.send(waitLine(`1`, "a"))
		p.want()
		begin := time.Now()
		p.stop()
		if err := <-p.err; err != nil {
			t.Error(err)
		}
		if d := time.Since(begin); d != 0 || g.cause("a") != ErrShutdown {
			t.Errorf("after %v, with %v", d, g.cause("a"))
		}
		p.want(`"id":1,"error"`)
	})
}

// blocked is an input whose Read nothing can end, as a terminal's.
type blocked struct{ end chan struct{} }

func (b blocked) Read([]byte) (int, error) {
	<-b.end
	return 0, io.EOF
}

func TestSignalDuringReadThatCannotBeEnded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := blocked{make(chan struct{})}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		if err := NewServer(nil).Serve(ctx, in, io.Discard); err != nil {
			t.Error(err)
		}
		if d := time.Since(begin); d != time.Minute {
			t.Errorf("Serve returned after %v", d)
		}
		close(in.end)
	})
}

// Real pipes have deadlines: a Read and a Write that wait are ended, and no goroutine stays.
func TestSignalOnRealPipes(t *testing.T) {
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []*os.File{inR, inW, outR, outW} {
		defer f.Close()
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error)
	go func() { over <- NewServer(nil).Serve(ctx, inR, outW) }()
	io.WriteString(inW, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n")
	outR.Read(make([]byte, 100)) // it serves
	cancel()
	select {
	case err := <-over:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(watchdog):
		t.Fatal("Serve did not return")
	}
}

// A client that has stopped reading does not keep the server.
func TestUnreadAtTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := connect(t, echoServer(nil))
		p.send(initializeLine(newest()), `{"jsonrpc":"2.0","id":1,"method":"echo"}`)
		begin := time.Now()
		if err := p.bye(); err != nil {
			t.Error(err)
		}
		if d := time.Since(begin); d != flushGrace {
			t.Errorf("Serve returned after %v", d)
		}
		close(p.read)
	})
}

// With a negative Drain the output waits for the client too, as in a shell pipe into a pager, until a signal
// comes.
func TestUnreadAtThePatientEnd(t *testing.T) {
	for _, reads := range []bool{true, false} {
		bubble(t, func(t *testing.T) {
			p := connect(t, echoServer(&Options{Drain: -1}))
			p.send(initializeLine(newest()), `{"jsonrpc":"2.0","id":1,"method":"echo"}`)
			p.in.Close()
			begin := time.Now()
			time.Sleep(time.Hour)
			want := time.Hour
			if reads {
				close(p.read)
			} else {
				p.stop()
				want += flushGrace
			}
			if err := <-p.err; err != nil {
				t.Error(err)
			}
			if d := time.Since(begin); d != want {
				t.Errorf("Serve returned after %v", d)
			}
			if reads {
				p.want(`"id":"init"`, `"id":1`)
			} else {
				close(p.read)
			}
		})
	}
}

// A handler that does not care about its context does not keep the server for ever.
func TestStubbornHandler(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := NewServer(nil)
		srv.Handle(Handshake, "stubborn", func(context.Context, *Caller, json.RawMessage) (any, error) {
			time.Sleep(time.Hour)
			return nil, nil
		})
		p := open(t, srv, newest())
		p.send(`{"jsonrpc":"2.0","id":1,"method":"stubborn"}`)
		begin := time.Now()
		if err := p.bye(); err != nil {
			t.Error(err)
		}
		if d := time.Since(begin); d != DefaultDrain+handlerGrace {
			t.Errorf("Serve returned after %v", d)
		}
		p.want()
		time.Sleep(time.Hour)
	})
}

// While handlers are waited for nothing new begins.
func TestRefusedAtTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := echoServer(nil)
		srv.Handle(Handshake, "stubborn", func(context.Context, *Caller, json.RawMessage) (any, error) {
			time.Sleep(handlerGrace / 2)
			return nil, nil
		})
		p := open(t, srv, newest())
		p.send(`{"jsonrpc":"2.0","id":1,"method":"stubborn"}`)
		p.want()
		p.stop()
		p.want()
		p.send(`{"jsonrpc":"2.0","id":2,"method":"echo"}`)
		p.want(`"id":2,"error":{"code":-32603,"message":"server is shutting down"`)
		if err := <-p.err; err != nil {
			t.Error(err)
		}
	})
}

// A client that has gone ends the session with an error: nothing can be told any more.
func TestClientGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := NewServer(nil)
		g := newGate(srv)
		p := connect(t, srv)
		p.out.Close()
		p.send(initializeLine(newest()))
		p.in.Write([]byte(waitLine(`1`, "a") + "\n")) // may fail: the session is ending
		err := <-p.err
		if !errors.Is(err, io.ErrClosedPipe) || !strings.HasPrefix(err.Error(), "writing to the client: ") {
			t.Errorf("got %v", err)
		}
		if c := g.cause("a"); c != nil && c != ErrShutdown {
			t.Errorf("the context ended with %v", c)
		}
		close(p.read)
	})
}

func TestInputError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := dial(t, NewServer(nil))
		p.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		p.in.CloseWithError(errors.New("disk on fire"))
		if err := <-p.err; err == nil || err.Error() != "reading messages: disk on fire" {
			t.Errorf("got %v", err)
		}
		p.want(`"result"`)
	})
}

// Requests that stand behind each other up to the end are all answered.
func TestScript(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var out strings.Builder
		in := strings.Join([]string{
			initializeLine(newest()),
			`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
			`{"jsonrpc":"2.0","id":1,"method":"echo","params":{"n":1}}`,
			`{"jsonrpc":"2.0","id":2,"method":"ping"}`,
		}, "\n")
		if err := echoServer(nil).Serve(t.Context(), strings.NewReader(in), &out); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		for _, want := range []string{`"id":"init","result"`, `"id":1,"result":{"n":1}`,
			`"id":2,"result":{}`} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %s in\n%s", want, out.String())
			}
		}
	})
}

// The answer to a last line without a newline does not wait for calls that go on.
func TestLastAnswerDoesNotWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, release := NewServer(&Options{Drain: -1}), make(chan struct{})
		s.Handle(Handshake, "slow", func(context.Context, *Caller, json.RawMessage) (any, error) {
			<-release
			return struct{}{}, nil
		})
		in := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}
{"jsonrpc":"2.0","id":1,"method":"slow"}
{"jsonrpc":"2.0","id":2,"method":"ping"}`
		out := &pipe{take: make(chan struct{}), over: t.Context().Done()}
		close(out.take)
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(t.Context(), strings.NewReader(in), out) }()
		synctest.Wait()
		out.mu.Lock()
		got := strings.Join(out.got, "")
		out.mu.Unlock()
		if !strings.Contains(got, `"id":2`) || strings.Contains(got, `"id":1`) {
			t.Errorf("while a call goes on came %q", got)
		}
		close(release)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
