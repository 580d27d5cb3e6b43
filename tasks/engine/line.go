package engine

import (
	"fmt"
	"sync"
	"time"
)

// line is the latest view of what waits for workers.
type line struct {
	look  chan struct{} // capacity 1: full while somebody looks, on behalf of all
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

// waitingMessage says that a task waits, and how many have waited longer.
func waitingMessage(r *Record, line *lineUp) string {
	o := r.Stored.Offer
	message := "waiting for a worker of class " + o.Class
	if line != nil && line.shows(r) {
		message += fmt.Sprintf(": %d before it", line.before[r.ID])
	}
	if o.Attempt > 0 {
		message += fmt.Sprintf(" (attempt %d: its worker is gone)", o.Attempt+1)
	}
	return message
}
