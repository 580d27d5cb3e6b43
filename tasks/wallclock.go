package tasks

import (
	"math"
	"time"
)

// Only the wall clock decides whether a ttl is over: the end of the ttl is in the state, the same for all
// processes. Go's timers, and comparisons with a time that time.Now has just returned, use the monotonic
// clock, which may stand still while the machine sleeps. So Task.Expired avoids it, and an alarm keeps
// looking at the wall clock.

// wakeInterval is how late an alarm may be after the machine has slept.
const wakeInterval = time.Second

// setAlarm calls f, in a goroutine, when the clock now is past a time. If the timer is stopped just while the
// alarm sets it again, over ends the alarm.
func setAlarm(now func() time.Time, when time.Time, over func() bool, f func()) *time.Timer {
	left := func() time.Duration { return min(when.Round(0).Sub(now()), wakeInterval) }
	var t *time.Timer
	t = time.AfterFunc(math.MaxInt64, func() {
		switch d := left(); {
		case over():
		case d > 0:
			t.Reset(d)
		default:
			f()
		}
	})
	t.Reset(left())
	return t
}
