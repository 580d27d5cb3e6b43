package upstream

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"runnel/rpc"
)

// errHung is why a server is given up that is silent and answers no ping.
var errHung = errors.New("the server hangs: while a call was silent it left a ping unanswered")

// silence distinguishes a server that hangs from one that works: it owes answers, has sent nothing for a while, and then leaves a ping
// unanswered, and sends nothing else, for the hungAfter of its config. Output that runnel's own client has not taken yet does not count as
// silence of the server: its reader waits then.
type silence struct {
	seen    atomic.Int64 // grows with what ends a silence: a message, a piece of output that was delivered, a server that owes its first answer
	waiting atomic.Int32 // how much of what has come waits for runnel's own client, mostly 0 or 1
	owed    atomic.Int32 // answers
}

// owe counts an answer that the server owes until it is paid.
func (s *silence) owe() (paid func()) {
	if s.owed.Add(1) == 1 {
		s.seen.Add(1) // its silence begins now
	}
	return func() { s.owed.Add(-1) }
}

// deliver writes to the output of a call and waits where runnel's own client lags too far. Mostly it is the link's reader that does.
func (s *silence) deliver(write func()) {
	s.waiting.Add(1)
	write()
	s.seen.Add(1)
	s.waiting.Add(-1)
}

// watch pings a server that is silent while it owes answers, and gives it up when it hangs. One that talks is not pinged: it may have one
// thread, which is at work. It ends with the connection.
func (s *silence) watch(client *rpc.Client, def *definition) {
	tick := time.NewTicker(def.times.pingAfter)
	defer tick.Stop()
	for seen := s.seen.Load(); ; {
		select {
		case <-client.Context().Done():
			return
		case <-tick.C:
		}
		before := seen
		if seen = s.seen.Load(); seen != before || s.waiting.Load() > 0 {
			continue
		}
		if def.hungAfter > 0 && s.owed.Load() > 0 && !s.pings(client, def.hungAfter) {
			def.log.Error().Stringer("after", def.hungAfter).Msg("upstream hangs: giving it up")
			client.Abandon(fmt.Errorf("%w for %v", errHung, def.hungAfter))
			return
		}
	}
}

// pings reports whether anything comes after a ping in time, be it not the answer.
func (s *silence) pings(client *rpc.Client, limit time.Duration) bool {
	method := "ping"
	if client.Era() == rpc.Stateless {
		method = "server/discover" // which has no ping
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	before := s.seen.Load()
	_, err := client.Do(ctx, &rpc.Request{Method: method})
	return !errors.Is(err, context.DeadlineExceeded) || s.seen.Load() != before || s.waiting.Load() > 0
}
