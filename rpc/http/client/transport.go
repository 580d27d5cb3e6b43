package httpclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"runnel/rpc/rawjson"
)

const (
	// noticePatience is how long the server may take to accept a message that gets no answer.
	noticePatience = 30 * time.Second
	// deletePatience is how long the server may take to end a session.
	deletePatience = 3 * time.Second
	// sentPatience is how long a cancellation waits until its request has been sent: the server may be
	// unreachable.
	sentPatience = time.Second
	// standingPatience is how long the next line waits for the standing stream: a server's messages there may
	// be lost before it is open, and not every server shows at once that it is.
	standingPatience = time.Second
)

// Transport is a server at a URL in the form of two pipes: lines that are written go to the server, and its
// messages are read as lines.
type Transport struct {
	*link
	work     sync.WaitGroup
	inFlight sync.WaitGroup // requests without an answer
	closing  sync.Once

	// Owned by Write.
	partial []byte // the beginning of a line
	// Later lines wait until it ends: with the answer to initialize, then with the standing stream; nil = do
	// not wait.
	opening context.Context

	// Guarded by link.mu.
	requests map[string]*request // requests without an answer, by id as written
}

// Open makes a transport. It does not connect yet.
func Open(o Options) (*Transport, error) {
	l, err := newLink(o)
	if err != nil {
		return nil, err
	}
	return &Transport{link: l, requests: map[string]*request{}}, nil
}

// Name is the URL without anything that may be secret, to show to a user.
func (t *Transport) Name() string { return t.name }

// Read reads the server's messages, one a line.
func (t *Transport) Read(p []byte) (int, error) { return t.lines.Read(p) }

// Write sends lines. It returns when the server has accepted those that get no answer; requests are still in
// flight then.
func (t *Transport) Write(p []byte) (int, error) {
	t.partial = append(t.partial, p...)
	for {
		line, rest, whole := bytes.Cut(t.partial, []byte("\n"))
		switch {
		case t.ctx.Err() != nil:
			return 0, context.Cause(t.ctx)
		case whole:
			t.send(bytes.Clone(bytes.TrimSpace(line)))
			t.partial = append(t.partial[:0], rest...)
		case len(line) > t.o.MaxLine:
			t.fail(fmt.Errorf("a line for the server is too long: the limit is %d bytes", t.o.MaxLine))
		default:
			return len(p), nil
		}
	}
}

// Finish waits until all requests are answered or ctx ends. Call it after the last Write.
func (t *Transport) Finish(ctx context.Context) {
	answered := make(chan struct{})
	go func() { // ends with the requests, with Close at the latest
		t.inFlight.Wait()
		close(answered)
	}()
	select {
	case <-answered:
	case <-ctx.Done():
	}
}

var errClosed = errors.New("the connection was closed")

// Close gives up the requests in flight, and ends the session.
func (t *Transport) Close() error {
	t.closing.Do(func() {
		t.mu.Lock()
		t.end(errClosed)
		t.mu.Unlock()
		_ = t.arrived.Close() // it never fails
		t.work.Wait()
		if t.session != "" { // "Clients that no longer need a particular session SHOULD send an HTTP DELETE"
			ctx, cancel := context.WithTimeout(context.Background(), deletePatience)
			defer cancel()
			if r, err := t.newHTTPRequest(ctx, http.MethodDelete, nil, nil); err == nil {
				if response, err := t.http.Do(r); err == nil {
					response.Body.Close()
				}
			}
		}
		t.http.CloseIdleConnections()
	})
	return nil
}

// send sends a line.
func (t *Transport) send(line []byte) {
	if len(line) == 0 {
		return
	}
	if t.opening != nil {
		<-t.opening.Done()
	}
	c := t.newRequest(line)
	stop := func() {}
	if c.method == "notifications/cancelled" {
		if stop = t.cancel(c.params); stop == nil {
			return
		}
	}
	if c.id != nil && c.method != "" || line[0] == '[' {
		if c.method == "initialize" {
			t.opening, c.begun = context.WithCancel(c.ctx)
		}
		t.mu.Lock()
		t.requests[string(c.id)] = c
		t.mu.Unlock()
		t.inFlight.Add(1)
		started := t.start(func() {
			c.run()
			t.inFlight.Done()
			t.mu.Lock()
			defer t.mu.Unlock()
			if t.requests[string(c.id)] == c {
				delete(t.requests, string(c.id))
			}
		})
		if !started {
			t.inFlight.Done()
		}
		return
	}
	ctx, cancel := context.WithTimeout(t.ctx, noticePatience)
	defer cancel()
	c.ctx, c.notice = ctx, true
	c.run()
	stop()
	if c.method == "notifications/initialized" && t.ctx.Err() == nil {
		standing := &request{link: t.link, standing: true, ctx: t.ctx, stop: func() {}, markSent: func() {}}
		t.opening, standing.begun = context.WithTimeout(t.ctx, standingPatience)
		t.start(standing.run)
	}
}

// start runs f in a goroutine that Close waits for, unless the transport has ended.
func (t *Transport) start(f func()) (started bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
		return false
	}
	t.work.Go(f)
	return true
}

// cancel gives up a request that is cancelled. stop closes its stream once the server has the notification,
// since some servers keep it open. It is nil if the notification must not be sent: "closing the SSE response
// stream is itself the cancellation signal" in 2026-07-28.
func (t *Transport) cancel(params []byte) (stop func()) {
	t.mu.Lock()
	c := t.requests[string(rawjson.Member(params, "requestId"))]
	t.mu.Unlock()
	if c == nil || c.id == nil {
		return func() {}
	}
	c.cancelled.Store(true)
	if c.stateless {
		c.stop()
		return nil
	}
	select { // it must not overtake the request
	case <-c.sent:
	case <-c.ctx.Done():
	case <-time.After(sentPatience):
		c.stop() // it is not sent at all
	}
	return c.stop
}
