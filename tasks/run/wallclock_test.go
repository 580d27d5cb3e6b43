package run

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"runnel/internal/signal"
)

// WallClock is a wall clock that can go on while the monotonic one stands still, as when a machine sleeps.
type WallClock struct{ slept atomic.Int64 }

func (c *WallClock) Now() time.Time { return time.Now().Add(time.Duration(c.slept.Load())) }

func (c *WallClock) Sleep(d time.Duration) { c.slept.Add(int64(d)) }

func TestAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clock WallClock
		var rang atomic.Int32
		ring := func() { rang.Add(1) }
		var going, over signal.Latch
		setAlarm(clock.Now, clock.Now().Add(time.Hour), going.IsSet, ring)
		setAlarm(clock.Now, clock.Now().Add(time.Hour), going.IsSet, ring).Stop()
		setAlarm(clock.Now, clock.Now(), going.IsSet, ring)
		var looks atomic.Int32
		setAlarm(func() time.Time {
			// The wait ends while the timer looks at the clock, so a stop would come too early.
			if looks.Add(1) == 2 {
				over.Set()
			}
			return clock.Now()
		}, clock.Now().Add(time.Hour), over.IsSet, ring)
		synctest.Wait()
		if n := rang.Load(); n != 1 {
			t.Errorf("%d rang at once, want 1", n)
		}
		time.Sleep(30 * time.Minute)
		if n := rang.Load(); n != 1 {
			t.Errorf("%d rang before their time", n)
		}
		if n := looks.Load(); n > 3 {
			t.Errorf("one that is over has looked at the clock %d times", n)
		}
		clock.Sleep(31 * time.Minute)
		time.Sleep(wakeInterval)
		synctest.Wait()
		if n := rang.Load(); n != 2 {
			t.Errorf("%d rang, want 2", n)
		}
	})
}
