package fallback

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"runnel/internal/pause"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tools/reading"
	"runnel/tools/terminal"
	"runnel/tools/text"
)

// sendWait is how long send_to_task waits unless it says so: most programs answer sooner, and one that does
// not prints something while it works.
const sendWait = 5 * time.Second

// sendToTask sends input to a task, and answers with what the task then prints.
func (f *Tools) sendToTask(ctx context.Context, in *Call, p *Params) (*mcp.CallToolResult, error) {
	v, release, err := f.Runner.Follow(ctx, p.TaskID)
	if errors.Is(err, tasks.ErrNotFound) {
		return nil, errNoTask(p.TaskID)
	} else if err != nil {
		return nil, err
	}
	defer release()
	t, err := f.Runner.Get(ctx, p.TaskID)
	if err != nil {
		return nil, err
	}
	if t.Password != nil && refusesText(p) {
		return nil, fmt.Errorf("nothing was typed into task %s: %s", p.TaskID, f.Host.PasswordWords(&t))
	}
	reader := f.Host.Reader(in.Caller, &t)
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
		known := place.Next > 0 || in.Caller == nil || !in.Caller.Version.Stateless
		switch {
		case sends && !known: // each request over stateless HTTP is a session, which gets what comes now
			if place.Next = from; hasScreen {
				err = reader.OnScreen(ctx, func(screen *terminal.SeenScreen) { screen.News(reader.Most) })
			}
		case !sends && known && place.Next < from:
			from = 0 // there is something new already: only its end is awaited
		}
		if sends && err == nil {
			err = f.sendSoon(ctx, v, &t, input, wait)
		}
		if err == nil {
			echoed := from
			if hasScreen && endsLine(input.Data) {
				echoed += int64(len(input.Data))
			}
			reading.Settle(ctx, v, from, echoed, wait-time.Since(began))
		}
	}
	switch {
	case errors.Is(err, tasks.ErrNoInput) && f.Host.TakesInput(t.Tool):
		return nil, fmt.Errorf("task %s has not begun to read its input, after %s: %s; call %s again",
			p.TaskID, text.Seconds(time.Since(began)), f.statusLine(&t, true),
			f.Host.Name(SendToTask))
	case v == nil && sends, errors.Is(err, tasks.ErrEnded):
		return nil, fmt.Errorf("task %s has ended, and reads nothing more: call %s for its result", p.TaskID,
			f.Host.Name("get_task_result"))
	case err != nil:
		return nil, fmt.Errorf("task %s: %w", p.TaskID, err)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	if t, err = f.Runner.Get(ctx, p.TaskID); err != nil {
		return nil, err
	}
	if f.Host.AskPassword(ctx, in, v, &t) {
		reading.Settle(ctx, v, t.Log.Size(), 0, wait)
		if t, err = f.Runner.Get(ctx, p.TaskID); err != nil {
			return nil, err
		}
	}
	reader = f.Host.Reader(in.Caller, &t)
	r, err := reader.News(ctx, place)
	if err != nil {
		return nil, err
	}
	reader.Remember(&r)
	switch {
	case t.Status.Terminal() || t.Status == mcp.TaskInputRequired:
		r.Text = endLine(r.Text) + "[" + f.statusLine(&t, false) + "]"
	case p.Screen && hasScreen:
		err = reader.OnScreen(ctx, func(screen *terminal.SeenScreen) {
			shown, row, column := screen.Text()
			columns, rows := screen.Size()
			r.Text = fmt.Sprintf("%s\n[cursor in row %d, column %d, of %dx%d]",
				f.Runner.Secrets().String(shown), row, column, columns, rows)
		})
		if err != nil {
			return nil, err
		}
	case r.Text == "":
		r.Text = fmt.Sprintf("[nothing new in %s, %s]", text.Seconds(time.Since(began)), t.Status)
	}
	if p.Screen && !hasScreen {
		r.Text = endLine(r.Text) + "[the task has no screen: its program runs without a terminal]"
	}
	if words := f.Host.PasswordWords(&t); words != "" {
		r.Text = endLine(r.Text) + words
	}
	result := aboutTask(r.Text, reading.Meta{TaskID: t.ID, Status: t.Status, Next: r.Place.Next})
	result.Content = append(result.Content, r.Content...)
	if t.Status.Terminal() {
		f.Runner.RecordRetrieved(t.ID)
		result.IsError = reading.IsError(&t)
	}
	return result, nil
}

// sendSoon sends input, also to a program that begins to read only now: its task may wait for a worker, or
// have been made a moment ago.
func (f *Tools) sendSoon(ctx context.Context, v *run.View, t *tasks.Task, input tasks.Input,
	limit time.Duration) (err error) {
	for began := time.Now(); ; {
		err = v.Send(ctx, input)
		if !errors.Is(err, tasks.ErrNoInput) || !f.Host.TakesInput(t.Tool) || time.Since(began) >= limit ||
			!pause.For(ctx, sendRetry) {
			return err
		}
	}
}

// sendRetry is how long a task that does not read yet is left alone.
const sendRetry = 50 * time.Millisecond

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

// refusesText reports whether input has text, which a prompt for a password does not get from a model. Keys
// that say nothing, such as Enter and C-c, pass.
func refusesText(p *Params) bool {
	shows := func(r rune) bool { return !unicode.IsControl(r) }
	return strings.ContainsFunc(p.Text, shows) || slices.ContainsFunc(p.Keys, func(key string) bool {
		return key == "Space" || utf8.RuneCountInString(key) == 1
	})
}
