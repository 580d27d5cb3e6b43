package every

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"runnel/internal/pause"
	"runnel/tasks/run"
)

// late is how late a start may be: what takes longer is a machine that slept, or a clock that was set, and
// the time is missed.
const late = time.Minute

// nap is how often a goroutine that waits looks at the clock, which may have been set; a machine that sleeps
// stops timers.
const nap = 10 * time.Second

// Starter starts a tool as the task with an id.
type Starter interface {
	StartTask(ctx context.Context, id, tool string, arguments []byte) error
}

// Scheduler starts the tools of its entries at their times, once it runs. Make one with New.
type Scheduler struct {
	runner  *run.Runner // of the owner, whose processes share the claims
	starter Starter
	log     zerolog.Logger
	now     func() time.Time // by the wall clock

	mu      sync.Mutex
	entries []running
	runs    bool
}

// running is an entry, and the context of the goroutine that follows it.
type running struct {
	Entry
	ctx  context.Context
	stop context.CancelFunc
}

// New makes a scheduler, which starts nothing before Run.
func New() *Scheduler { return &Scheduler{now: func() time.Time { return time.Now().Round(0) }} }

// Run starts the tools from now on, until Stop or the end of the runner.
func (s *Scheduler) Run(runner *run.Runner, starter Starter, log zerolog.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runner, s.starter, s.log, s.runs = runner, starter, log, true
	for _, r := range s.entries {
		s.begin(r)
	}
}

// Replace sets the entries. Those that are the same as before go on.
func (s *Scheduler) Replace(list []Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var next []running
	for _, e := range list {
		i := slices.IndexFunc(s.entries, func(r running) bool { return r.same(&e) })
		if i >= 0 {
			next = append(next, s.entries[i])
			s.entries = slices.Delete(s.entries, i, i+1)
			continue
		}
		r := running{Entry: e}
		r.ctx, r.stop = context.WithCancel(context.Background())
		if next = append(next, r); s.runs {
			s.begin(r)
		}
	}
	for _, r := range s.entries {
		r.stop()
	}
	s.entries = next
}

// begin starts the goroutine of an entry. s.mu is held.
func (s *Scheduler) begin(r running) {
	s.runner.Go(func(ctx context.Context) { // it does not run once the runner is closed
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(r.ctx, cancel)()
		s.follow(ctx, &r.Entry)
	})
}

// Stop starts nothing more. What runs goes on.
func (s *Scheduler) Stop() {
	s.Replace(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs = false
}

// follow starts the tool of an entry at its times, until ctx ends.
func (s *Scheduler) follow(ctx context.Context, e *Entry) {
	for last := s.now(); ; {
		next := e.schedule.Next(last)
		if next.IsZero() {
			return // not within five years
		}
		if wait := min(next.Sub(s.now()), nap); wait > 0 && !pause.For(ctx, wait) {
			return
		}
		now := s.now()
		switch {
		case now.Before(last): // the clock was set back; what was claimed does not come again
			last = now
		case !now.Before(next):
			due, missed := e.latest(last, now)
			if missed {
				s.log.Info().Str("tool", e.Tool).Time("due", next).
					Msg("this tool was not started: the machine slept, its clock was set, or the start " +
						"before took too long")
			}
			if !due.IsZero() {
				s.fire(ctx, e, due, now)
			}
			last = now
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// latest returns the latest time in (from, now] that is not too long ago, zero if there is none; missed
// reports whether there was an earlier one.
func (e *Entry) latest(from, now time.Time) (due time.Time, missed bool) {
	first := e.schedule.Next(from)
	if earliest := now.Add(-late); from.Before(earliest) {
		from = earliest.Add(-1)
	}
	for t := e.schedule.Next(from); !t.IsZero() && !t.After(now); t = e.schedule.Next(t) {
		due = t
	}
	return due, due.IsZero() || first.Before(due)
}
