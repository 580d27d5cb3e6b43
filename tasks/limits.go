package tasks

import (
	"sync"
	"time"
)

// Limits are what one owner may do. A state counts tasks over all its processes; requests are
// counted in each, which serves one client.
type Limits struct {
	MaxLive              int // tasks with a handle that have not ended; 0 = DefaultMaxLive
	MaxStartsPerMinute   int // 0 = no limit
	MaxRequestsPerSecond int // task methods; 0 = no limit
}

// Why a task or a request about one was refused.
const (
	RefusedLive     = "live"     // MaxLive
	RefusedStarts   = "starts"   // MaxStartsPerMinute
	RefusedRequests = "requests" // MaxRequestsPerSecond
	RefusedStore    = "store"    // it could not be stored
)

// window allows so many in any period: no burst at the edge of two.
type window struct {
	limit  int
	period time.Duration

	mu    sync.Mutex
	taken []time.Time // within the last period, oldest first
}

// take reports whether one more is allowed now.
func (w *window) take() bool {
	if w.limit <= 0 {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for len(w.taken) > 0 && now.Sub(w.taken[0]) >= w.period {
		w.taken = w.taken[1:]
	}
	if len(w.taken) >= w.limit {
		return false
	}
	w.taken = append(w.taken, now)
	return true
}
