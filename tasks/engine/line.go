package engine

import (
	"fmt"
	"strconv"
	"sync"
	"time"
)

// line is the latest view of what waits for workers.
type line struct {
	look  chan struct{} // capacity 1: full while somebody looks, who then looks for all
	mu    sync.Mutex
	known *lineUp
}

// lineUp is what waits for workers at one moment.
type lineUp struct {
	at     time.Time
	before map[string]int // by id: how many of its class have waited longer
	class  map[string]int // how many wait in each class
}

func (l *line) recent() *lineUp {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known
}

// shows reports whether workers can see a task.
func (l *lineUp) shows(r *Record) bool {
	_, ok := l.before[r.ID]
	return ok
}

// waitingMessage says that a task waits, and how many have waited longer. Large numbers are rounded, so that followers do not hear of every
// single change.
func waitingMessage(r *Record, line *lineUp) string {
	o := r.Stored.Offer
	message := "waiting for a worker of class " + o.Class
	if line != nil && line.shows(r) {
		message += ": " + roughly(line.before[r.ID]) + " before it"
	}
	if o.Attempt > 0 {
		message += fmt.Sprintf(" (attempt %d: its worker is gone)", o.Attempt+1)
	}
	return message
}

// roughly rounds a number to one digit.
func roughly(n int) string {
	unit := 1
	for n/unit >= 10 {
		unit *= 10
	}
	if unit == 1 {
		return strconv.Itoa(n)
	}
	return "about " + strconv.Itoa(n/unit*unit)
}
