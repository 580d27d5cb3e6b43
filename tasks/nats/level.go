package nats

import (
	"slices"
	"strings"
	"sync"
	"time"

	"runnel/tasks"
)

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
