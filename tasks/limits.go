package tasks

import (
	"sync"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
)

// Limits are what one owner may do. A state counts tasks over all its processes; requests are
// counted in each, which serves one client.
type Limits struct {
	MaxLive              int // tasks with a handle that have not ended; 0 = 100
	MaxStartsPerMinute   int // 0 = no limit
	MaxRequestsPerSecond int // task methods, with a burst of one second's worth; 0 = no limit
}

const defaultMaxLive = 100

// Why a task or a request about one was refused.
const (
	RefusedLive     = "live"     // MaxLive
	RefusedStarts   = "starts"   // MaxStartsPerMinute
	RefusedRequests = "requests" // MaxRequestsPerSecond
	RefusedStore    = "store"    // it could not be stored
)

// refusal is a limit that was reached.
type refusal struct {
	why string // RefusedLive or RefusedStarts
	err error  // for the client
}

func (e *refusal) Error() string { return e.err.Error() }

func (e *refusal) Unwrap() error { return e.err }

// TooManyLive is the refusal of a task beyond MaxLive.
func (l *Limits) TooManyLive() error {
	return &refusal{RefusedLive, rpc.Errorf(mcp.CodeInternalError, "too many live tasks: the limit is %d (--max-tasks, tasks.maxLive); wait for one to end or cancel one", l.MaxLive)}
}

// TooManyStarts is the refusal of a task beyond MaxStartsPerMinute.
func (l *Limits) TooManyStarts() error {
	return &refusal{RefusedStarts, rpc.Errorf(mcp.CodeInternalError, "too many tasks started: the limit is %d a minute (tasks.maxStartsPerMinute); try again later", l.MaxStartsPerMinute)}
}

func (l *Limits) tooManyRequests() error {
	return rpc.Errorf(mcp.CodeInternalError, "too many task requests: the limit is %d a second (tasks.maxRequestsPerSecond); try again later", l.MaxRequestsPerSecond)
}

// bucket is a token bucket: it fills evenly and holds what one period allows.
type bucket struct {
	limit  int
	period time.Duration

	mu     sync.Mutex
	tokens float64
	filled time.Time // when tokens was right; zero before the first take
}

// take reports whether one more is allowed now.
func (b *bucket) take() bool {
	if b.limit <= 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.filled.IsZero() {
		b.tokens = float64(b.limit)
	} else {
		b.tokens = min(b.tokens+now.Sub(b.filled).Seconds()/b.period.Seconds()*float64(b.limit), float64(b.limit))
	}
	b.filled = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

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
