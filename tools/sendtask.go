package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"runnel/internal/pause"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tools/reading"
	"runnel/tools/terminal"
	"runnel/tools/text"
)

const sendToTask = "send_to_task"

const (
	// sendWait is how long send_to_task waits unless it says so: most programs answer sooner, and one that
	// does not prints something while it works.
	sendWait = 5 * time.Second
	// quiet is how long output has to pause until it counts as settled: longer than a program takes between
	// the echo of a line and its answer, on a machine that is busy. Where another process runs the task, this
	// one looks for its output some two times a second.
	quiet     = 300 * time.Millisecond
	quietAway = time.Second
	// quietEcho is how long it has to pause while a line that was typed is all that has come: its program
	// works.
	quietEcho = 2 * time.Second
	// firstSettle is how long a new program has until its first output settles.
	firstSettle = 10 * time.Second
)

// sendToTask sends input to a task, and answers with what the task then prints.
func (s *service) sendToTask(ctx context.Context, in *Call, p *fallbackParams) (*mcp.CallToolResult, error) {
	v, release, err := s.runner.Follow(ctx, p.TaskID)
	if errors.Is(err, tasks.ErrNotFound) {
		return nil, errNoTask(p.TaskID)
	} else if err != nil {
		return nil, err
	}
	defer release()
	t, err := s.runner.Get(ctx, p.TaskID)
	if err != nil {
		return nil, err
	}
	if t.Password != nil && refusesText(p) {
		return nil, fmt.Errorf("nothing was typed into task %s: %s", p.TaskID, s.passwordWords(&t))
	}
	reader := s.reader(in.caller, &t)
	hasScreen := reader.HasScreen()
	application := false
	if hasScreen && len(p.Keys) > 0 {
		err := reader.OnScreen(ctx, func(screen *terminal.SeenScreen) { application = screen.Application() })
		if err != nil {
			return nil, err
		}
	}
	typed, err := terminal.Keys(p.Keys, application)
	if err != nil {
		return nil, err
	}
	input := tasks.Input{Data: append([]byte(p.Text), typed...), EOF: p.EOF}
	if hasScreen && p.EOF { // what reads it now ends, and the shell that has started it reads on
		end := "\x04"
		if len(input.Data) > 0 && !endsLine(input.Data) {
			end += end // the first one only ends the line
		}
		input.Data, input.EOF = append(input.Data, end...), false
	}
	sends := len(input.Data) > 0 || input.EOF
	wait := p.wait(sendWait)
	began := time.Now()
	place := reader.Session.Place(p.TaskID)
	if v != nil {
		from := v.Log().Size()
		known := place.Next > 0 || in.caller == nil || !in.caller.Version.Stateless
		switch {
		case sends && !known: // each request over stateless HTTP is a session, which gets what comes now
			if place.Next = from; hasScreen {
				err = reader.OnScreen(ctx, func(screen *terminal.SeenScreen) { screen.News(reader.Most) })
			}
		case !sends && known && place.Next < from:
			from = 0 // there is something new already: only its end is awaited
		}
		if sends && err == nil {
			err = s.sendSoon(ctx, v, &t, input, wait)
		}
		if err == nil {
			echoed := from
			if hasScreen && endsLine(input.Data) {
				echoed += int64(len(input.Data))
			}
			settle(ctx, v, from, echoed, wait-time.Since(began))
		}
	}
	switch {
	case errors.Is(err, tasks.ErrNoInput) && s.takesInput(&t):
		return nil, fmt.Errorf("task %s has not begun to read its input, after %s: %s; call %s again",
			p.TaskID, text.Seconds(time.Since(began)), s.statusLine(&t, true),
			s.registry.fallbackName(sendToTask))
	case v == nil && sends, errors.Is(err, tasks.ErrEnded):
		return nil, fmt.Errorf("task %s has ended, and reads nothing more: call %s for its result", p.TaskID,
			s.registry.fallbackName("get_task_result"))
	case err != nil:
		return nil, fmt.Errorf("task %s: %w", p.TaskID, err)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	if t, err = s.runner.Get(ctx, p.TaskID); err != nil {
		return nil, err
	}
	if s.askFromCall(ctx, in, v, &t) {
		settle(ctx, v, t.Log.Size(), 0, wait)
		if t, err = s.runner.Get(ctx, p.TaskID); err != nil {
			return nil, err
		}
	}
	reader = s.reader(in.caller, &t)
	r, err := reader.News(ctx, place)
	if err != nil {
		return nil, err
	}
	reader.Remember(&r)
	switch {
	case t.Status.Terminal() || t.Status == mcp.TaskInputRequired:
		r.Text = endLine(r.Text) + "[" + s.statusLine(&t, false) + "]"
	case p.Screen && hasScreen:
		err = reader.OnScreen(ctx, func(screen *terminal.SeenScreen) {
			shown, row, column := screen.Text()
			columns, rows := screen.Size()
			r.Text = fmt.Sprintf("%s\n[cursor in row %d, column %d, of %dx%d]",
				s.runner.Secrets().String(shown), row, column, columns, rows)
		})
		if err != nil {
			return nil, err
		}
	case r.Text == "":
		r.Text = fmt.Sprintf("[nothing new in %s, %s]", text.Seconds(time.Since(began)), t.Status)
	}
	if words := s.passwordWords(&t); words != "" {
		r.Text = endLine(r.Text) + words
	}
	result := aboutTask(r.Text, taskMeta{TaskID: t.ID, Status: t.Status, Next: r.Place.Next})
	result.Content = append(result.Content, r.Content...)
	if t.Status.Terminal() {
		s.runner.RecordRetrieved(t.ID)
		result.IsError = reading.IsError(&t)
	}
	return result, nil
}

// sendSoon sends input, also to a program that begins to read only now: its task may wait for a worker, or
// have been made a moment ago.
func (s *service) sendSoon(ctx context.Context, v *run.View, t *tasks.Task, input tasks.Input,
	limit time.Duration) (err error) {
	for began := time.Now(); ; {
		err = v.Send(ctx, input)
		if !errors.Is(err, tasks.ErrNoInput) || !s.takesInput(t) || time.Since(began) >= limit ||
			!pause.For(ctx, sendRetry) {
			return err
		}
	}
}

// sendRetry is how long a task that does not read yet is left alone.
const sendRetry = 50 * time.Millisecond

// takesInput reports whether the tool of a task takes input.
func (s *service) takesInput(t *tasks.Task) bool {
	e := s.registry.lookup(t.Tool)
	return e != nil && e.traits.TakesInput
}

// typed reports whether models type into calls of a tool. send_to_task is listed for all clients then.
func (s *service) typed(e *entry) bool { return e.traits.TakesInput && s.o.FallbackTools != "never" }

// endsLine reports whether what is typed ends with a newline, or with the key Enter.
func endsLine(typed []byte) bool {
	return bytes.HasSuffix(typed, []byte("\n")) || bytes.HasSuffix(typed, []byte("\r"))
}

// endLine ends the last line of a text, if it has any.
func endLine(s string) string {
	if s != "" && !strings.HasSuffix(s, "\n") {
		s += "\n"
	}
	return s
}

// settle waits until a task has written something after a position and then nothing for a moment, until it
// has ended, or until the limit is over. Output up to the position echoed is no more than what was typed, as
// terminals show it.
func settle(ctx context.Context, v *run.View, from, echoed int64, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := v.Log().Grown(ctx, from)
	for err == nil {
		size, pause := v.Log().Size(), quiet
		switch {
		case size <= echoed:
			pause = quietEcho
		case isDone(v.Detached()):
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
