package run

import (
	"context"
	"time"

	"runnel/tasks"
)

// A tool may find something in its own output: that it is ready, or lines that it watches for
// (tasks.Matches). A run has them as soon as they are found. What others see of them, a status and a note
// (notes.go), costs a write to the state, and comes at most once in matchPace; only the moment in which the
// tool is ready does not wait.

// matchPace is the shortest time between two statuses that show new matches.
const matchPace = time.Second

// matching is what a run has still to announce of its matches. It is guarded by the lock mu of the run.
type matching struct {
	due      bool        // the timer runs
	timer    *time.Timer // announces matches; nil before the first one
	at       time.Time   // when matches were last announced
	unstored bool        // there are matches that the state does not have
	reported int         // how many were reported to Options.Matched; guarded by changing
}

// Ready reports that the tool is ready after a time, which line shows. Only the first call counts.
func (r *Run) Ready(after time.Duration, line string) {
	line = r.secrets.String(line)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase < ending && r.task.Matches.Ready == nil {
		r.setMatches(r.task.Matches.IsReady(after, line))
		r.announceAfter(0)
	}
}

// Match reports a line of the output that the tool watches for under a name. limit is how many lines of that
// name are told; further ones are counted.
func (r *Run) Match(name, line string, limit int) {
	line = r.secrets.String(line)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase < ending {
		r.setMatches(r.task.Matches.With(name, line, limit))
		if !r.matching.due { // otherwise the timer comes after this match
			r.announceAfter(max(0, matchPace-time.Since(r.matching.at)))
		}
	}
}

// setMatches sets the task's matches. v.mu is held, or v is new.
func (v *View) setMatches(m tasks.Matches) {
	m.Attempt = v.task.Attempt
	v.task.Matches = m
	if m.Ready != nil {
		v.ready.Set()
	}
}

// announceAfter has the matches announced after a time. r.mu is held.
func (r *Run) announceAfter(d time.Duration) {
	m := &r.matching
	m.due, m.unstored = true, true
	if m.timer == nil {
		m.timer = time.AfterFunc(d, func() { r.runner.Go(r.announceDue) })
	} else {
		m.timer.Reset(d)
	}
}

// announceDue announces the matches that are due: to other processes, to the client, to people.
func (r *Run) announceDue(ctx context.Context) {
	r.changing.Lock()
	defer r.changing.Unlock()
	r.mu.Lock()
	if r.phase >= ending || !r.matching.due {
		r.mu.Unlock()
		return
	}
	hasHandle := r.kept == handle
	r.matching.due = false
	r.matching.at = time.Now()
	r.matching.unstored = !hasHandle // then promote announces them again
	r.task.UpdatedAt = r.matching.at
	t := r.task
	r.mu.Unlock()
	if hasHandle {
		if _, err := r.setNotes(ctx, map[string]any{matchesNote(t.Attempt): t.Matches}); err != nil {
			r.runner.o.Log.Debug().Err(err).Str("taskId", r.id).Msg("storing the matches of a task")
			r.mu.Lock()
			r.announceAfter(matchPace) // who waits elsewhere for the tool to be ready reads nothing else
			r.mu.Unlock()
		}
	}
	r.announceMatches(r.spec.Client)
	r.reportMatches(&t)
}

// announceMatches sends the client a status that shows the matches.
func (v *View) announceMatches(client Client) {
	t := v.live()
	client.Status(t.Wire(v.runner.o.PollInterval))
	v.changes.Send()
}

// reportMatches reports new matches to Options.Matched, as reportEnd reports an end. Those beyond the limit
// of their name are not reported: people hear of their number at the end. changing is held.
func (r *Run) reportMatches(t *tasks.Task) {
	n := t.Matches.Told()
	if n == r.matching.reported || r.runner.o.Matched == nil || !r.spec.Handle && !r.spec.Late ||
		t.Attempt > 0 {
		return
	}
	r.matching.reported = n
	r.runner.o.Matched(t)
}
