package upstream

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"runnel/rpc"
)

// errHung is the reason for giving up a server that is silent and does not answer pings.
var errHung = errors.New("the server hangs: while a call was silent it left a ping unanswered")

// silence distinguishes a server that hangs from one that works. A hanging server owes answers, has been
// silent for a while, and then sends nothing in answer to a ping, or otherwise, for the hungAfter of its
// config. While the reader waits for runnel's own client to take output, the server does not count as silent.
type silence struct {
	// Grows whenever a silence ends: with a message, with delivered output, and when a server begins to owe
	// answers.
	seen    atomic.Int64
	waiting atomic.Int32 // messages that wait for runnel's own client, mostly 0 or 1
	owed    atomic.Int32 // answers
}

// owe counts an answer that the server owes until it is paid.
func (s *silence) owe() (paid func()) {
	if s.owed.Add(1) == 1 {
		s.seen.Add(1) // its silence begins now
	}
	return func() { s.owed.Add(-1) }
}

// deliver writes to a call's output, and waits if runnel's own client lags too far. Mostly the link's reader
// calls it.
func (s *silence) deliver(write func()) {
	s.waiting.Add(1)
	write()
	s.seen.Add(1)
	s.waiting.Add(-1)
}

// watch pings a server that is silent while it owes answers, and gives it up when it hangs. A server that
// sends something is not pinged, because its only thread may be at work. watch ends with the connection.
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

// pings sends a ping, and reports whether anything comes in time, be it the answer or not.
func (s *silence) pings(client *rpc.Client, limit time.Duration) bool {
	method := "ping"
	if client.Era() == rpc.Stateless {
		method = "server/discover" // the stateless era has no ping
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	before := s.seen.Load()
	_, err := client.Do(ctx, &rpc.Request{Method: method})
	return !errors.Is(err, context.DeadlineExceeded) || s.seen.Load() != before || s.waiting.Load() > 0
}
