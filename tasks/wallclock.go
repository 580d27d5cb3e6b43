package tasks

import (
	"sync"
	"time"
)

// The wall clock alone decides whether a ttl is over: it stands in the state, for all processes alike. Go's timers, and its comparisons
// of times that it has just taken, go by the monotonic clock, which may stand still while the machine sleeps. So Task.Expired
// passes that by, and an alarm looks at the wall clock again and again.

// wakeInterval is how long after a sleep an alarm may be late.
const wakeInterval = time.Second

// alarm calls a function once the wall clock has passed a time.
type alarm struct {
	mu    sync.Mutex
	timer *time.Timer
	over  bool // it has rung, or was stopped
}

// setAlarm lets f be called, in a goroutine of its own, when now has passed a time.
func setAlarm(now func() time.Time, when time.Time, f func()) *alarm {
	a := &alarm{}
	a.look(now, when.Round(0), f)
	return a
}

func (a *alarm) look(now func() time.Time, when time.Time, f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return
	}
	left := when.Sub(now())
	if left <= 0 {
		a.over = true
		go f()
		return
	}
	a.timer = time.AfterFunc(min(left, wakeInterval), func() { a.look(now, when, f) })
}

// stop lets f not be called any more. It reports false if that has been, or if the alarm was stopped before.
func (a *alarm) stop() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.timer != nil {
		a.timer.Stop()
	}
	waited := !a.over
	a.over = true
	return waited
}
