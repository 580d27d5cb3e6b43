package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"runnel/internal/pause"
	"runnel/internal/signal"
	"runnel/rpc/rawjson"
	"runnel/tasks"
)

// Input comes from clients of this process (View.Send), and from other processes on the same state, which
// store it as notes of the task. Those are named so that they sort in the order in which they were sent; the
// process that runs the task takes each once, and deletes it.

// inputs is the input that waits for the work of a run.
type inputs struct {
	mu      sync.Mutex
	waiting []tasks.Input
	size    int  // of all Data, at most tasks.MaxInput
	ended   bool // after an Input with EOF
	more    signal.Wake

	receiving sync.Once // done when takeNotes has been started
}

// inputCost is what a piece without data counts, in bytes: a resize waits, too.
const inputCost = 64

// put appends input, or returns why it cannot.
func (q *inputs) put(in tasks.Input) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	cost := len(in.Data) + inputCost
	switch {
	case q.ended:
		return tasks.ErrInputEnd
	case q.size+cost > tasks.MaxInput+inputCost: // one full piece fits
		return tasks.ErrInputFull
	}
	q.waiting = append(q.waiting, in)
	q.size += cost
	q.ended = in.EOF
	q.more.Send()
	return nil
}

// next waits for the next piece of input.
func (q *inputs) next(ctx context.Context) (tasks.Input, error) {
	for {
		q.mu.Lock()
		if len(q.waiting) > 0 {
			in := q.waiting[0]
			q.waiting = q.waiting[1:]
			q.size -= len(in.Data) + inputCost
			q.mu.Unlock()
			return in, nil
		}
		ended := q.ended
		q.mu.Unlock()
		if ended {
			return tasks.Input{}, io.EOF
		}
		select {
		case <-q.more:
		case <-ctx.Done():
			return tasks.Input{}, context.Cause(ctx)
		}
	}
}

// OpenInput lets clients send input. The work calls it where it runs, not where it is handed over; a second
// call does nothing.
func (r *Run) OpenInput() {
	if !r.input.CompareAndSwap(nil, &inputs{more: signal.NewWake()}) {
		return
	}
	r.mu.Lock()
	stored := r.kept == handle
	r.mu.Unlock()
	if stored {
		r.receiveNotes()
	}
}

// NextInput waits for the next piece of input. It fails with io.EOF after the last one, and with the cause of
// ctx. OpenInput comes first.
func (r *Run) NextInput(ctx context.Context) (tasks.Input, error) { return r.input.Load().next(ctx) }

// Send sends input to the task, wherever it runs. It does not wait for the program to read it. The error is
// one of package tasks if the task takes no input, or no more of it.
func (v *View) Send(ctx context.Context, in tasks.Input) error {
	switch {
	case v.past(draining):
		return tasks.ErrEnded
	case len(in.Data) > tasks.MaxInput:
		return fmt.Errorf("%d bytes are too much for one input: the limit is %d", len(in.Data),
			tasks.MaxInput)
	case v.away():
		return v.sendAway(ctx, in)
	}
	q := v.input.Load()
	if q == nil {
		return tasks.ErrNoInput
	}
	return q.put(in)
}

// inputMark names the note by which a task shows that it takes input.
func inputMark(attempt int) string { return tasks.InputPrefix + ofAttempt(attempt, "open") }

// lastSent is the time in the name of the last note of input that this process has stored: two in the same
// nanosecond keep their order.
var lastSent struct {
	sync.Mutex
	at int64
}

// inputNote is a name for the next note of input.
func inputNote(attempt int) string {
	lastSent.Lock()
	defer lastSent.Unlock()
	lastSent.at = max(lastSent.at+1, time.Now().UnixNano())
	return fmt.Sprintf("%s%020d-%08x", inputNotes(attempt), lastSent.at, rand.Uint32())
}

// inputNotes begins the names of the notes of input.
func inputNotes(attempt int) string { return tasks.InputPrefix + ofAttempt(attempt, "piece-") }

// sendAway stores input for the process that runs the task.
func (v *View) sendAway(ctx context.Context, in tasks.Input) error {
	t, err := v.runner.store.Head(ctx, v.id)
	switch {
	case err != nil:
		return err
	case t.Status.Terminal():
		return tasks.ErrEnded
	case !tasks.HasNotes(t.Variables):
		return tasks.ErrNoInput
	}
	switch open := rawjson.Member(t.Variables, inputMark(t.Attempt)); string(open) {
	case "true":
	case "false":
		return tasks.ErrInputEnd
	default:
		return tasks.ErrNoInput
	}
	size := 0
	for _, waiting := range readInputs(t.Variables, t.Attempt) {
		size += len(waiting.Data)
		if waiting.EOF {
			return tasks.ErrInputEnd
		}
	}
	if size+len(in.Data) > tasks.MaxInput {
		return tasks.ErrInputFull
	}
	_, err = v.setNotes(ctx, map[string]any{inputNote(t.Attempt): in})
	return err
}

// noted is input that a note holds.
type noted struct {
	name string
	tasks.Input
}

// readInputs returns the input among a task's variables, in the order in which it was sent.
func readInputs(variables json.RawMessage, attempt int) (list []noted) {
	if !tasks.HasNotes(variables) {
		return nil
	}
	for it := rawjson.Over(variables); it.Next(); {
		n := noted{name: string(it.Name)}
		if strings.HasPrefix(n.name, inputNotes(attempt)) && json.Unmarshal(it.Value, &n.Input) == nil {
			list = append(list, n)
		}
	}
	slices.SortFunc(list, func(a, b noted) int { return strings.Compare(a.name, b.name) })
	return list
}

// receiveNotes shows other processes that the task takes input, and starts a goroutine that takes what they
// send, until the run ends. The task is stored.
func (r *Run) receiveNotes() {
	r.input.Load().receiving.Do(func() {
		r.runner.Go(func(ctx context.Context) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(r.ctx, cancel)()
			err := r.takeNotes(ctx)
			if err != nil && ctx.Err() == nil {
				r.runner.o.Log.Warn().Err(err).Str("taskId", r.id).
					Msg("input from other processes is not received")
			}
		})
	})
}

// takeNotes takes the input that other processes have stored, piece by piece, until ctx ends.
func (r *Run) takeNotes(ctx context.Context) error {
	// A state may fail for a moment, as while its servers choose a leader.
	note := func(patch map[string]any) error {
		return r.runner.retryWatch(ctx, r.id, func() error {
			_, err := r.setNotes(ctx, patch)
			return err
		})
	}
	mark := inputMark(r.Task().Attempt)
	if err := note(map[string]any{mark: true}); err != nil {
		return err
	}
	var t tasks.Task
	err := r.runner.retryWatch(ctx, r.id, func() (err error) {
		t, err = r.runner.store.Get(ctx, r.id)
		return err
	})
	if err != nil {
		return err
	}
	if t.Log == r.log { // a state in memory, which no other process has
		return nil
	}
	t.Log.Follow()
	t.Segments.Follow()
	q := r.input.Load()
	taken := map[string]bool{} // variables that were read before a note was deleted may still come
	for {
		forget, before := map[string]any{}, taken
		taken = map[string]bool{}
		for _, piece := range readInputs(t.Variables, t.Attempt) {
			if taken[piece.name] = true; !before[piece.name] {
				err := q.put(piece.Input)
				for errors.Is(err, tasks.ErrInputFull) && pause.For(ctx, inputRetry) {
					err = q.put(piece.Input)
				}
			}
			if forget[piece.name] = nil; piece.EOF {
				forget[mark] = false
			}
		}
		if len(forget) > 0 {
			if err := note(forget); err != nil {
				return err
			}
		}
		if err := r.runner.watchStored(ctx, &t); err != nil {
			return err
		}
	}
}

// inputRetry is how long a full queue is left alone.
const inputRetry = 20 * time.Millisecond

// AsksPassword reports what the program of the task asks a password with, and nil when it no longer does.
// Those who follow the task see it, in other processes too.
func (r *Run) AsksPassword(prompt *tasks.PasswordPrompt) {
	r.changing.Lock()
	defer r.changing.Unlock()
	r.mu.Lock()
	if r.phase >= ending || tasks.SamePrompt(prompt, r.task.Password) {
		r.mu.Unlock()
		return
	}
	r.task.Password = prompt
	stored := r.kept == handle
	r.mu.Unlock()
	if stored {
		r.notePassword()
	}
	r.changes.Send()
}

// notePassword shows other processes what the program asks a password with. Without that, they only do not
// know why it waits. changing is held.
func (r *Run) notePassword() {
	t := r.Task()
	if _, err := r.setNotes(r.ctx, map[string]any{passwordNote(t.Attempt): t.Password}); err != nil {
		r.runner.o.Log.Debug().Err(err).Str("taskId", r.id).Msg("storing that a task asks for a password")
	}
}
