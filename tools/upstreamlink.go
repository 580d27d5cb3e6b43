package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
)

// link is one connection to an upstream, and the calls on it. What comes is handed out by the client's reader; where a call's
// output waits for runnel's own client, the reader waits, and with it the server: nothing is kept that is not delivered.
type link struct {
	u      *Upstream
	client *rpc.Client
	stderr *lastWords
	relist chan struct{} // capacity 1: the list of tools has changed

	seen    atomic.Int64 // when the server sent something last, in nanoseconds since began
	waiting atomic.Int32 // what has come waits for runnel's own client
	began   time.Time

	ended chan struct{}
	err   error // how the server ended; valid after ended

	mu    sync.Mutex
	last  int64 // token
	calls []*upstreamCall
}

func newLink(u *Upstream) *link {
	return &link{u: u, stderr: &lastWords{log: u.log}, relist: make(chan struct{}, 1), began: time.Now(), ended: make(chan struct{})}
}

// end tells the calls how the server ended. The first end counts.
func (l *link) end(err error) {
	select {
	case <-l.ended:
	default:
		l.err = err
		close(l.ended)
	}
}

func (l *link) touch() { l.seen.Store(int64(time.Since(l.began))) }

// silence is how long nothing has come that could have.
func (l *link) silence() time.Duration {
	if l.waiting.Load() > 0 {
		return 0
	}
	return time.Since(l.began) - time.Duration(l.seen.Load())
}

// busy tells whether the server has calls.
func (l *link) busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.calls) > 0
}

// watch pings a server that is silent while it has calls. An answer, or anything else that comes, tells that it is slow;
// nothing for too long that it hangs. It ends with the connection.
func (l *link) watch() {
	u := l.u
	method := "ping"
	if l.client.Era() == rpc.Stateless {
		method = "server/discover" // which has no ping
	}
	pause := time.NewTimer(u.times.pingAfter)
	defer pause.Stop()
	for {
		select {
		case <-l.client.Done():
			return
		case <-pause.C:
		}
		next := u.times.pingAfter - l.silence()
		if next <= 0 {
			next = u.times.pingAfter
			if u.hungAfter > 0 && l.busy() && !l.answers(method) {
				u.log.Error().Stringer("after", u.hungAfter).Msg("upstream hangs: it is given up")
				l.client.Abandon(errHung)
				return
			}
		}
		pause.Reset(next)
	}
}

// answers tells whether anything comes within the time that a server has.
func (l *link) answers(method string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), l.u.hungAfter)
	defer cancel()
	before := l.seen.Load()
	_, err := l.client.Do(ctx, &rpc.Request{Method: method})
	return !errors.Is(err, context.DeadlineExceeded) || l.seen.Load() != before || l.waiting.Load() > 0
}

// listen subscribes to changes of the list of a server of the stateless era. It ends with the connection, or when the server does
// not take the subscription.
func (l *link) listen() {
	if l.client.Era() != rpc.Stateless {
		return
	}
	err := l.client.Call(l.u.ctx, "subscriptions/listen", mcp.ListenParams{Notifications: &mcp.SubscriptionFilter{ToolsListChanged: true}}, nil)
	if err != nil && l.client.Err() == nil && l.u.ctx.Err() == nil {
		l.u.log.Debug().Err(err).Msg("upstream tells of no changes of its list")
	}
}

// notification takes one of the server's.
func (l *link) notification(method string, params json.RawMessage) {
	switch method {
	case "notifications/tools/list_changed":
		select {
		case l.relist <- struct{}{}:
		default:
		}
	case "notifications/message":
		if c := l.only(params); c != nil {
			c.logLine(params)
		} else {
			l.u.log.Debug().Bytes("says", params[:min(len(params), maxLogLine)]).Msg("upstream, of no call or of one of several")
		}
	case "notifications/progress":
		if c := l.find(params); c != nil {
			c.remote.Notification(method, params)
			c.progress(params)
		}
	default:
		if c := l.find(params); c != nil {
			c.remote.Notification(method, params)
			return
		}
		// Of a task whose handle has not come yet, or of nothing.
		for _, c := range l.under() {
			if c.remote.Tracker().TaskID() == "" {
				c.remote.Notification(method, params)
			}
		}
	}
}

// under are the calls that are under way.
func (l *link) under() []*upstreamCall {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.calls)
}

// find finds the call that a message names by its token or its task.
func (l *link) find(params json.RawMessage) *upstreamCall {
	if !rpc.IsObject(params) {
		return nil
	}
	var token, task []byte
	rpc.EachMember(params, func(name, value []byte) bool {
		switch string(name) {
		case "progressToken", "partialResultToken":
			token = value
		case "taskId":
			task = value
		case "_meta":
			if task == nil && rpc.IsObject(value) {
				task = namedTask(value)
			}
		}
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.calls {
		if token != nil && bytes.Equal(token, c.token) {
			return c
		}
		if task != nil {
			if id := c.remote.Tracker().TaskID(); id != "" && string(task) == `"`+id+`"` {
				return c
			}
		}
	}
	return nil
}

// namedTask is the id, in quotes, of the task that a _meta names; nil if it names none.
func namedTask(meta []byte) (task []byte) {
	rpc.EachMember(meta, func(name, value []byte) bool {
		if string(name) == mcp.MetaRelatedTask && rpc.IsObject(value) {
			rpc.EachMember(value, func(name, value []byte) bool {
				if string(name) == "taskId" {
					task = value
				}
				return true
			})
		}
		return true
	})
	return task
}

// only is the call that a message must be of: the one that it names, else the one that is under way.
func (l *link) only(params json.RawMessage) *upstreamCall {
	if c := l.find(params); c != nil {
		return c
	}
	if calls := l.under(); len(calls) == 1 {
		return calls[0]
	}
	return nil
}

// request answers the server's questions. One that names no task, while several calls are under way, is put to the user
// in the newest of them, unless they are of several clients: nothing tells whose question it is.
func (l *link) request(ctx context.Context, method string, params json.RawMessage) (any, error) {
	if method != "elicitation/create" {
		return nil, rpc.Errorf(mcp.CodeMethodNotFound, "method not found: %.100q", method)
	}
	c := l.only(params)
	if calls := l.under(); c == nil && len(calls) > 0 {
		c = calls[len(calls)-1]
		for _, other := range calls {
			if !bytes.Equal(other.in.caller.Head(), c.in.caller.Head()) {
				return nil, rpc.Errorf(mcp.CodeInternalError, "whose question is this? %d calls of several clients are under way, and it names no task", len(calls))
			}
		}
	}
	if c == nil {
		return nil, rpc.Errorf(mcp.CodeInternalError, "no call is under way: there is nobody to ask")
	}
	return c.ask(ctx, params)
}

// token makes the token of a call.
func (l *link) token() json.RawMessage {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	return fmt.Appendf(nil, `"%d"`, l.last)
}

func (l *link) add(c *upstreamCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.calls) == 0 {
		l.touch() // its silence begins now
	}
	l.calls = append(l.calls, c)
}

func (l *link) remove(c *upstreamCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = slices.DeleteFunc(l.calls, func(other *upstreamCall) bool { return other == c })
}
