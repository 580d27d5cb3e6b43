package upstream

import (
	"context"
	"errors"
	"time"

	"runnel/rpc"
)

// A server hangs that has calls, has sent nothing for a while, and then leaves a ping unanswered for UpstreamConfig.HungAfter. What
// it has sent and runnel's own client has not taken yet is no silence of the server's: its reader waits then (link.waiting).

// errHung is why a server is given up that is silent and answers no ping.
var errHung = errors.New("the server hangs: while a call was silent it left a ping unanswered")

// watch pings a server that is silent while it has calls, and gives it up when it hangs. It ends with the connection.
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

// answers pings the server and reports whether anything comes in time, be it not the answer.
func (l *link) answers(method string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), l.u.hungAfter)
	defer cancel()
	before := l.seen.Load()
	_, err := l.client.Do(ctx, &rpc.Request{Method: method})
	return !errors.Is(err, context.DeadlineExceeded) || l.seen.Load() != before || l.waiting.Load() > 0
}

// silence is how long the server has sent nothing though it could have.
func (l *link) silence() time.Duration {
	if l.waiting.Load() > 0 {
		return 0
	}
	return time.Since(l.began) - time.Duration(l.seen.Load())
}

// busy reports whether the server owes answers.
func (l *link) busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.calls)+l.routed > 0
}
