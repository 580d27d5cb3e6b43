package upstream

import (
	"encoding/json"
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
	u      *Server
	client *rpc.Client
	stderr *lastWords
	relist chan struct{} // capacity 1: a list has changed

	seen    atomic.Int64 // when the server sent something last, in nanoseconds since began
	waiting atomic.Int32 // how much of what has come waits for runnel's own client, mostly 0 or 1
	began   time.Time

	ended chan struct{}
	err   error // how the server ended; valid after ended

	mu     sync.Mutex
	last   int64   // the last token
	routed int     // requests other than calls that have no answer yet
	calls  []*call // oldest first
}

func newLink(u *Server) *link {
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

// touch ends the server's silence.
func (l *link) touch() { l.seen.Store(int64(time.Since(l.began))) }

// listen subscribes to changes of the lists of a server of the stateless era. It ends with the connection, or when the server does
// not take the subscription.
func (l *link) listen() {
	if l.client.Era() != rpc.Stateless {
		return
	}
	err := l.client.Call(l.u.ctx, "subscriptions/listen", mcp.ListenParams{Notifications: &mcp.SubscriptionFilter{ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true}}, nil)
	if err != nil && l.client.Err() == nil && l.u.ctx.Err() == nil {
		l.u.log.Debug().Err(err).Msg("upstream tells of no changes of its list")
	}
}

// token makes the token of a call.
func (l *link) token() json.RawMessage {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	return fmt.Appendf(nil, `"%d"`, l.last)
}

func (l *link) add(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.calls) == 0 {
		l.touch() // its silence begins now
	}
	l.calls = append(l.calls, c)
}

func (l *link) remove(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = slices.DeleteFunc(l.calls, func(other *call) bool { return other == c })
}
