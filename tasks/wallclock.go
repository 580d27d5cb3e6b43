package tasks

import (
	"math"
	"time"

	"runnel/rpc"
)

// The wall clock alone decides whether a ttl is over: it stands in the state, for all processes alike. Go's timers, and its comparisons
// of times that it has just taken, go by the monotonic clock, which may stand still while the machine sleeps. So Task.Expired
// passes that by, and an alarm looks at the wall clock again and again.

// wakeInterval is how long after a sleep an alarm may be late.
const wakeInterval = time.Second

// setAlarm lets f be called, in a goroutine of its own, when now has passed a time. Stop may come while it looks at the clock, and sets
// itself again: over ends it then.
func setAlarm(now func() time.Time, when time.Time, over *rpc.Latch, f func()) *time.Timer {
	left := func() time.Duration { return min(when.Round(0).Sub(now()), wakeInterval) }
	var t *time.Timer
	t = time.AfterFunc(math.MaxInt64, func() {
		switch d := left(); {
		case over.IsSet():
		case d > 0:
			t.Reset(d)
		default:
			f()
		}
	})
	t.Reset(left())
	return t
}
