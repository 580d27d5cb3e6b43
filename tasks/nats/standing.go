package nats

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"runnel/internal/signal"
	"runnel/tasks"
)

// standing is this worker among those that wait for tasks. It stays one of them between two calls of Next
// that come one soon after the other: so a quick task costs the servers no subscription, and no look that
// finds nothing.
type standing struct {
	owners, classes []string
	spaces          []*space
	woken           signal.Wake
	looked          time.Time   // when the last look that found none began
	hears           bool        // servers wake it
	ends            []func()    // they no longer do
	away            *time.Timer // ends it if Next is not called again
}

// awayTime is how long the call of Next after a task was found may take: a worker without a free slot makes
// none.
const awayTime = 20 * time.Millisecond

// stand returns this worker as it stood in line after the last call of Next, or makes it stand in line.
func (s *State) stand(ctx context.Context, owners, classes []string) (*standing, error) {
	s.standingMu.Lock()
	w := s.standing
	s.standing = nil
	s.standingMu.Unlock()
	if w != nil && w.away.Stop() {
		if slices.Equal(w.owners, owners) && slices.Equal(w.classes, classes) {
			return w, nil
		}
		w.end()
	}
	w = &standing{owners: owners, classes: classes, woken: signal.NewWake()}
	for _, owner := range owners {
		sp, err := queue{s.Space(owner)}.open(ctx)
		if err == nil {
			err = sp.hearLevels()
		}
		if err != nil {
			return nil, err
		}
		w.spaces = append(w.spaces, sp)
	}
	return w, nil
}

// step lets a worker that has found a task stand in line for awayTime, and another one leave.
func (s *State) step(w *standing, found bool) {
	s.standingMu.Lock()
	stays := found && w.hears && s.standing == nil
	if stays {
		s.standing = w
		w.away = time.AfterFunc(awayTime, func() {
			s.standingMu.Lock()
			if s.standing == w {
				s.standing = nil
			}
			s.standingMu.Unlock()
			w.end()
		})
	}
	s.standingMu.Unlock()
	if !stays {
		w.end()
	}
}

// shown reports whether a task has woken the worker that it has not looked for.
func (w *standing) shown() bool {
	return slices.ContainsFunc(w.spaces, func(sp *space) bool { return sp.turns.waked() })
}

// hear lets servers wake the worker.
func (w *standing) hear() error {
	w.hears = true
	for _, sp := range w.spaces {
		end, err := sp.idle(w.classes, w.woken)
		w.ends = append(w.ends, end)
		if err != nil {
			return err
		}
	}
	return nil
}

// end ends that, and lets what has woken the worker in vain wake others.
func (w *standing) end() {
	for _, end := range w.ends {
		end()
	}
	for _, sp := range w.spaces {
		for _, line := range sp.turns.passOn() {
			sp.wakeWorker(line)
		}
	}
}

// hearLevels makes this process hear when a high or low task of the owner is shown, until it ends.
func (sp *space) hearLevels() error {
	if sp.hearsLevels.Swap(true) {
		return nil
	}
	_, err := sp.c.nc.Subscribe(sp.wakes+workers, func(m *nats.Msg) { sp.turns.hear(string(m.Data)) })
	if err != nil {
		sp.hearsLevels.Store(false)
		return unreachable(err)
	}
	return nil
}

// idle makes this worker one of those that wait for tasks of the owner, until end is called. A server wakes
// one of them for each task that is shown, so that a call costs as much with a thousand workers as with one.
func (sp *space) idle(classes []string, woken signal.Wake) (end func(), err error) {
	var heard []*nats.Subscription
	var ended atomic.Bool
	for _, class := range classes {
		sub, failed := sp.c.nc.QueueSubscribe(sp.wakes+workers+"."+class, workers, func(m *nats.Msg) {
			if line := string(m.Data); ended.Load() {
				sp.wakeWorker(line)
			} else {
				sp.turns.wake(line)
				woken.Send()
			}
		})
		if err = failed; err != nil {
			break
		}
		heard = append(heard, sub)
	}
	return func() {
		ended.Store(true)
		for _, sub := range heard {
			_ = sub.Drain() // what comes while the server does not know it yet wakes another one
		}
	}, err
}

// wakeWorker wakes one of the workers that wait for tasks in a line. If none does, they look by themselves.
func (sp *space) wakeWorker(line string) {
	class, _, _ := strings.Cut(line, "+")
	_ = sp.c.nc.Publish(sp.wakes+workers+"."+class, []byte(line))
}

// An owner's waiting tasks of a class stand in a line for each priority. In the subjects and the consumers of
// the work queue a line's name has the place of the class: CLASS for normal tasks, CLASS+high, CLASS+low.

// levels are the priorities, the highest first.
var levels = []tasks.Priority{tasks.PriorityHigh, tasks.PriorityNormal, tasks.PriorityLow}

// lineOf returns the name of a line. A class has no plus sign.
func lineOf(class string, p tasks.Priority) string {
	if p == tasks.PriorityHigh || p == tasks.PriorityLow {
		return class + "+" + string(p)
	}
	return class
}

// shares are the levels that come first for each of ten tasks that this process takes from an owner, as
// tasks.Priority says.
var shares = [...]int{0, 1, 0, 0, 1, 0, 2, 0, 1, 0}

// turns are what a worker knows of an owner's lines.
type turns struct {
	mu    sync.Mutex
	taken int                  // how many tasks it has taken
	heard int                  // how many times it has heard of high and low tasks
	empty map[string]time.Time // the lines of these in which it found none, and when
	// for each line that it looks at: how many tasks there have woken it, as far as it has not found them.
	shown map[string]int
}

// emptyTime is how long a worker believes that a line is empty of which it hears nothing: most fleets have
// normal tasks alone, and each look is a request.
const emptyTime = 10 * time.Second

// order returns the levels in the order in which they have their turn.
func (t *turns) order() []tasks.Priority {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := shares[t.taken%len(shares)]
	return slices.Concat(levels[first:first+1], levels[:first], levels[first+1:])
}

// worthwhile reports whether a look at a line may find something, and whether a task there has woken this
// worker. found needs heard.
func (t *turns) worthwhile(line string) (heard int, shown, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.shown == nil {
		t.shown = map[string]int{}
	}
	t.shown[line] += 0
	return t.heard, t.shown[line] > 0, time.Since(t.empty[line]) > emptyTime
}

// found notes what a look at a line has found. One that found none though a task was shown says nothing: the
// consumer may not know the task yet.
func (t *turns) found(line string, task, shown bool, heard int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if task {
		t.shown[line] = max(t.shown[line]-1, 0)
	} else {
		t.shown[line] = 0
	}
	switch {
	case task:
		t.taken++
	case !shown && heard == t.heard && strings.Contains(line, "+"):
		if t.empty == nil {
			t.empty = map[string]time.Time{}
		}
		t.empty[line] = time.Now()
	}
}

// hear notes that a task was shown in a line.
func (t *turns) hear(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if strings.Contains(line, "+") {
		t.heard++
		delete(t.empty, line)
	}
}

// wake notes that a task in a line has woken this worker.
func (t *turns) wake(line string) {
	t.hear(line)
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ours := t.shown[line]; ours {
		t.shown[line]++
	}
}

// waked reports whether a task has woken this worker that it has not found.
func (t *turns) waked() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range t.shown {
		if n > 0 {
			return true
		}
	}
	return false
}

// passOn returns the lines of the tasks that have woken this worker and that it has not found, and forgets
// them.
func (t *turns) passOn() (lines []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for line, n := range t.shown {
		lines = append(lines, slices.Repeat([]string{line}, n)...)
		t.shown[line] = 0
	}
	return lines
}
