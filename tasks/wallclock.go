package tasks

import (
	"math"
	"time"
)

// The wall clock alone decides whether a ttl is over: it stands in the state, for all processes alike. Go's timers, and its comparisons
// of times that it has just taken, go by the monotonic clock, which may stand still while the machine sleeps. So Task.Expired
// passes that by, and an alarm looks at the wall clock again and again.

// wakeInterval is how long after a sleep an alarm may be late.
const wakeInterval = time.Second

// setAlarm lets f be called, in a goroutine of its own, when now has passed a time.
func setAlarm(now func() time.Time, when time.Time, f func()) *time.Timer {
	left := func() time.Duration { return min(when.Round(0).Sub(now()), wakeInterval) }
	var t *time.Timer
	t = time.AfterFunc(math.MaxInt64, func() {
		if d := left(); d > 0 {
			t.Reset(d)
		} else {
			f()
		}
	})
	t.Reset(left())
	return t
}
