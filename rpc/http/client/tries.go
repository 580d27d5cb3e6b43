package httpclient

import (
	"context"
	"math/rand/v2"
	"time"

	"runnel/internal/pause"
)

const (
	// patience is how long a server may be unreachable before requests to it fail.
	patience = 30 * time.Second
	// firstPause and longestPause bound the pauses between attempts to reach it.
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
	// leastStanding is the least pause after the server has ended the standing stream: some end it at once,
	// each time.
	leastStanding = 500 * time.Millisecond
)

// tries paces the attempts to connect again after a connection was lost. The zero value is ready for use.
type tries struct {
	since time.Time     // the first loss in a row; zero = none
	pause time.Duration // before the next attempt
	least time.Duration // the server's own pause: "The client MUST respect the retry field"
	begun bool          // there was an attempt
}

// connected notes that the server can be reached.
func (r *tries) connected() { r.since = time.Time{} }

// received notes that an event has arrived.
func (r *tries) received() { r.since, r.pause = time.Time{}, 0 }

// wait waits until the next attempt. It reports false if there should be none.
func (r *tries) wait(ctx context.Context) bool {
	r.begun = true
	if r.since.IsZero() {
		r.since = time.Now()
	} else if time.Since(r.since) > patience {
		return false
	}
	r.pause = max(r.pause, firstPause)
	// The pause is random, so that the clients of a server do not connect at the same moment.
	rest := max(r.least, r.pause/2+rand.N(r.pause/2))
	r.pause = min(2*r.pause, longestPause)
	return pause.For(ctx, rest)
}
