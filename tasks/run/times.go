package run

import (
	"context"
	"time"

	"runnel/tasks"
)

// Times record when the output of a task came, as the process that runs it has seen it: coarsely, so that a
// day takes a few KiB. They are stored as a note (notes.go), with the progress, for other processes, and for
// later.

const (
	// sampleFirst is the age at which a task's output is first sampled, and the time between samples while
	// the task is young. It rises to samplePace, which is also the shortest time between two notes of
	// progress: each note is a write to the state.
	sampleFirst = 250 * time.Millisecond
	samplePace  = time.Second
	// timesPace is the shortest time between two notes of times. Those of an old task are noted whenever its
	// age has grown by one part in sampleParts.
	timesPace = 4 * time.Second
	// sampleParts is the least number of parts into which the age of a task is divided by its samples.
	sampleParts = 64
	maxSamples  = 4 * sampleParts
	// timesWait is how long the end of a task waits, at most, until its last times are stored.
	timesWait = 2 * time.Second
)

// grown adds a sample if the output has grown. It never changes samples that others may be reading.
func grown(s tasks.Times, at time.Duration, bytes int64) tasks.Times {
	if n := len(s); bytes == 0 || n > 0 && bytes <= s[n-1].Bytes {
		return s
	}
	s = append(s, tasks.Sample{At: at, Bytes: bytes})
	if len(s) <= maxSamples {
		return s
	}
	var kept tasks.Times
	last := time.Duration(0)
	for n, sample := range s {
		if n+1 == len(s) || s[n+1].At-last >= at/sampleParts { // keep the sample at which a silence begins
			kept, last = append(kept, sample), sample.At
		}
	}
	return kept
}

// sampler looks at the output of a run from time to time. It is guarded by the lock mu of the run.
type sampler struct {
	timer *time.Timer   // nil until the run begins
	pace  time.Duration // of samples and of notes of progress
	// Closed when the last sample's notes are stored, or have failed; nil before the first sample.
	noting chan struct{}
	noted  struct { // what the last notes say
		progress tasks.Progress
		until    time.Duration // the age of the task up to which times are noted
		at       time.Time     // when progress was last noted
	}
}

// sample looks at the output, notes what has changed, and sets the timer for the next sample.
func (r *Run) sample(context.Context) {
	r.mu.Lock()
	if r.phase >= ending || r.place >= away {
		r.mu.Unlock()
		return
	}
	age := r.addSample()
	before := r.sampler.noted
	done := make(chan struct{})
	defer close(done)
	r.sampler.noting = done
	var notes map[string]any
	if r.kept == handle {
		notes = r.newNotes(time.Since(before.at) >= r.sampler.pace, max(timesPace, age/sampleParts))
	}
	r.mu.Unlock()
	var err error
	if len(notes) > 0 {
		_, err = r.setNotes(r.ctx, notes)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.sampler.noted = before // the next note may succeed, or that of the end
	}
	if r.phase < ending {
		r.sampler.timer.Reset(min(max(age/sampleParts, sampleFirst), r.sampler.pace))
	}
}

// addSample samples the output now, and returns the age of the task. r.mu is held.
func (r *Run) addSample() time.Duration {
	age := max(time.Since(r.task.CreatedAt), 0)
	r.task.Times = grown(r.task.Times, age, r.log.Size())
	return age
}

// newNotes returns notes of what has changed since the last ones: progress, if that is due, and times, if
// they reach at least a step further. r.mu is held.
func (r *Run) newNotes(progress bool, step time.Duration) map[string]any {
	notes := map[string]any{}
	noted := &r.sampler.noted
	if progress && r.task.Progress != noted.progress {
		notes[progressNote(r.task.Attempt)] = r.task.Progress
		noted.progress, noted.at = r.task.Progress, time.Now()
	}
	if n := len(r.task.Times); n > 0 && r.task.Times[n-1].At-noted.until >= step {
		notes[timesNote(r.task.Attempt)] = r.task.Times
		noted.until = r.task.Times[n-1].At
	}
	return notes
}

// storeTimes notes the last progress, and when the last of the output came, before the end of the task is
// stored. A task of less than a second gets such notes only if it already has others.
func (r *Run) storeTimes(t *tasks.Task) {
	ctx, cancel := context.WithTimeout(context.Background(), timesWait)
	defer cancel()
	r.mu.Lock()
	noting := r.sampler.noting
	r.mu.Unlock()
	if noting != nil { // it may fail, since the run's context has ended, or replace the last note
		select {
		case <-noting:
		case <-ctx.Done():
		}
	}
	r.mu.Lock()
	age := r.addSample()
	t.Times = r.task.Times
	var notes map[string]any
	if age >= time.Second || r.sampler.noted.until > 0 || !r.sampler.noted.at.IsZero() {
		notes = r.newNotes(true, 1)
	}
	if r.matching.unstored {
		if notes == nil {
			notes = map[string]any{}
		}
		notes[matchesNote(t.Attempt)] = r.task.Matches
	}
	r.mu.Unlock()
	if len(notes) > 0 {
		_, _ = r.setNotes(ctx, notes) // the end matters more
	}
}

// PublishProgress makes this run note its progress sooner after Report, and more often.
func (r *Run) PublishProgress() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sampler.pace = sampleFirst
}

// showNotes reads the notes of a task that this process does not run: its progress, and when its output
// came.
func showNotes(t *tasks.Task) {
	if tasks.HasNotes(t.Variables) {
		n := readNotes(t.Variables, t.Attempt)
		t.Progress, t.Times, t.Matches = n.progress, n.times, n.matches
		t.Password = n.password
	}
}
