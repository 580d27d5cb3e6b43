package reading

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"

	"runnel/internal/shorten"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tools/text"
)

// Until looks for the first line of a task's output that matches a pattern. It reads the log page by page; of
// a line, the first maxUntilLine bytes are searched.
type Until struct {
	pattern *regexp.Regexp
	line    []byte // the unfinished line
	found   bool
	matched string // the line that matches
}

const (
	maxUntilLine = 4 << 10
	// untilQuiet is how long an unfinished line must not grow before it is searched: it may be a prompt, or
	// half of a line.
	untilQuiet = 100 * time.Millisecond
)

var errUntil = fmt.Errorf("searching the output takes more than %v: use a simpler until, or after", maxSearch)

// NewUntil compiles the argument "until".
func NewUntil(pattern string) (*Until, error) {
	re, err := text.CompilePattern(pattern)
	if err != nil {
		return nil, fmt.Errorf("until: %w", err)
	}
	if re.MatchString("") {
		return nil, fmt.Errorf("until: %q matches every line", pattern)
	}
	return &Until{pattern: re}, nil
}

// Write implements text.Sink.
func (u *Until) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0 && !u.found; {
		end := bytes.IndexAny(rest, "\r\n")
		if end < 0 {
			u.keep(rest)
			break
		}
		u.keep(rest[:end])
		u.search()
		u.line = u.line[:0]
		rest = rest[end+1:]
	}
	return len(p), nil
}

func (u *Until) keep(p []byte) {
	u.line = append(u.line, p[:min(len(p), maxUntilLine-len(u.line))]...)
}

// search searches the line, whole or as far as it has come.
func (u *Until) search() {
	if line := text.StripANSI(u.line); u.pattern.Match(line) {
		u.found, u.matched = true, string(bytes.TrimSpace(line))
	}
}

// Insert implements text.Sink: the words are not output.
func (u *Until) Insert(string, int64) {}

// Skip implements text.Sink.
func (u *Until) Skip(int64) {}

// Full implements text.Sink.
func (u *Until) Full() bool { return u.found }

// Words says what became of the search in the output of a task, for the beginning of an answer.
func (u *Until) Words(t *tasks.Task) string {
	switch {
	case u.found:
		return "matched until: " + shorten.Clip(u.matched, tasks.MaxMatch) + "\n"
	case t.Status.Terminal():
		return fmt.Sprintf("ended, and no line matched until %q\n", u.pattern)
	default:
		return fmt.Sprintf("no line matches until %q yet\n", u.pattern)
	}
}

// Await waits until a line of a task's output matches, from a position on, the task has ended, or the time is
// over. Its results are those of Runner.Await.
func (u *Until) Await(ctx context.Context, runner *run.Runner, id string, from int64,
	limit time.Duration) (tasks.Task, error) {
	v, release, err := runner.Follow(ctx, id)
	if err != nil {
		return tasks.Task{}, err
	}
	defer release()
	wait, stop := context.WithTimeout(ctx, limit)
	defer stop()
	search, cancel := context.WithTimeoutCause(ctx, limit+maxSearch, errUntil)
	defer cancel()
	for v != nil {
		t := v.Task()
		if from, err = shapeLog(search, u, &t, from); err != nil || u.found {
			break
		}
		quiet, stop := context.WithTimeout(wait, untilQuiet)
		grows := v.Log().Grown(quiet, from)
		stop()
		if grows == nil {
			continue
		}
		if u.search(); u.found {
			break
		}
		if grows = v.Log().Grown(wait, from); errors.Is(grows, io.EOF) { // the end follows
			_, _ = runner.AwaitView(wait, id, v)
		}
		if grows != nil {
			break
		}
	}
	switch {
	case ctx.Err() != nil:
		return tasks.Task{}, context.Cause(ctx)
	case err != nil:
		return tasks.Task{}, err
	}
	t, err := runner.Get(ctx, id)
	if v != nil && errors.Is(err, tasks.ErrNotFound) {
		t = v.Task()
	}
	if err == nil && v == nil { // it had ended before
		if _, err = shapeLog(search, u, &t, from); !u.found {
			u.search()
		}
	}
	return t, err
}

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
