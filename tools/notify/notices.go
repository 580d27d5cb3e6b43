package notify

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"runnel/tasks"
	"runnel/tools/secrets"
)

const (
	// maxWaiting is how many notices of some 2 KiB may wait for one way. Further ones are lost, since a
	// person reads only a few.
	maxWaiting = 100
	// closeGrace is how long Close waits for notices that are being sent: longer than a desktop and most
	// servers need, shorter than hosts wait.
	closeGrace = 3 * time.Second
)

// Notices reports the ends of a process's tasks. A nil Notices reports nothing.
type Notices struct {
	secrets *secrets.Current
	log     zerolog.Logger
	rules   atomic.Pointer[Rules]

	ctx  context.Context // bounds the notices that are being sent
	stop func()
	all  sync.WaitGroup

	mu     sync.Mutex
	closed bool
}

// New makes Notices without rules. hidden holds what they must not show.
func New(hidden *secrets.Current, log zerolog.Logger) *Notices {
	n := &Notices{secrets: hidden, log: log}
	ctx, stop := context.WithCancelCause(log.WithContext(context.Background()))
	n.ctx, n.stop = ctx, func() { stop(errors.New("runnel ends")) }
	return n
}

// Replace replaces the rules.
func (n *Notices) Replace(rules *Rules) {
	n.rules.Store(rules)
}

// Rules returns the present rules.
func (n *Notices) Rules() *Rules {
	if n == nil {
		return nil
	}
	return n.rules.Load()
}

// Tell reports a task that has ended, if a rule says so. It does not wait for the delivery.
func (n *Notices) Tell(t *tasks.Task) {
	rule := n.Rules().of(t.Tool)
	if !rule.wants(t) {
		return
	}
	told := newNotice(t, n.secrets.Set())
	for _, w := range rule.ways {
		if n.loses(w, told) {
			n.log.Warn().Str("taskId", t.ID).Str("notify", w.name).
				Msg("a notice is lost: too many wait, or runnel ends; others are not logged until none waits")
		}
	}
}

// loses queues a notice for its way. It reports whether the notice is lost and is the first one lost since
// the queue was empty.
func (n *Notices) loses(w *way, told *notice) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.closed || len(w.waiting) >= maxWaiting:
		first := !w.loses
		w.loses = true
		return first
	case !w.busy:
		w.busy, w.loses = true, false
		n.all.Go(func() { n.run(w) })
	}
	w.waiting = append(w.waiting, told)
	return false
}

// run sends the notices that wait for a way, until none is left.
func (n *Notices) run(w *way) {
	for {
		n.mu.Lock()
		if left := len(w.waiting); left == 0 || n.ctx.Err() != nil {
			w.busy = false
			n.mu.Unlock()
			if left > 0 {
				n.log.Warn().Str("notify", w.name).Int("lost", left).Msg("notices are lost: runnel ends")
			}
			return
		}
		next := w.waiting[0]
		w.waiting = w.waiting[1:]
		before := w.failed
		n.mu.Unlock()
		err := w.tell(n.ctx, next)
		if err != nil && !before {
			n.log.Warn().Err(err).Str("taskId", next.Task).Str("notify", w.name).
				Msg("a notice was not delivered; others that fail like this are not logged")
		}
		n.mu.Lock()
		w.failed = err != nil
		n.mu.Unlock()
	}
}

// Close gives notices that are being sent some time, and returns when nothing of them is left.
func (n *Notices) Close() {
	if n == nil {
		return
	}
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	defer time.AfterFunc(closeGrace, n.stop).Stop()
	n.all.Wait()
	n.stop()
}
