package reading

import (
	"context"
	"errors"
	"io"
	"time"

	"runnel/tasks/run"
)

const (
	// quiet is how long output has to pause until it counts as settled: longer than a program takes between
	// the echo of a line and its answer, on a machine that is busy. Where another process runs the task, this
	// one looks for its output some two times a second.
	quiet     = 300 * time.Millisecond
	quietAway = time.Second
	// quietEcho is how long it has to pause while a line that was typed is all that has come: its program
	// works.
	quietEcho = 2 * time.Second
)

// Settle waits until a task has written something after a position and then nothing for a moment, until it
// has ended, or until the limit is over. Output up to the position echoed is no more than what was typed, as
// terminals show it.
func Settle(ctx context.Context, v *run.View, from, echoed int64, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := v.Log().Grown(ctx, from)
	for err == nil {
		size, pause := v.Log().Size(), quiet
		switch {
		case size <= echoed:
			pause = quietEcho
		case isAway(v):
			pause = quietAway
		}
		wait, stop := context.WithTimeout(ctx, pause)
		err = v.Log().Grown(wait, size)
		stop()
	}
	if errors.Is(err, io.EOF) { // the end follows
		select {
		case <-v.Ended():
		case <-ctx.Done():
		}
	}
}

// isAway reports whether another process runs a task.
func isAway(v *run.View) bool {
	select {
	case <-v.Detached():
		return true
	default:
		return false
	}
}
