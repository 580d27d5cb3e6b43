package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	xterm "golang.org/x/term"

	"runnel/internal/pause"
	"runnel/internal/term"
	"runnel/partials"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tools/terminal"
)

// attachCommand is "runnel attach".
func (i *invocation) attachCommand() *cobra.Command {
	cmd := i.aboutTask("attach ID", "Type into the terminal of a running task",
		`Joins the terminal of a task whose tool has "interactive: true": you see what it shows, and type into it
as the model does with send_to_task. Several people may be attached to it. The terminal takes the size of
yours. Ctrl-P Ctrl-Q leaves; the task goes on. What you type is stored until it reaches the task, and no
model reads it.`,
		`  runnel attach 4d8a`,
		func(cmd *cobra.Command, l *local, id string) error {
			in, isFile := i.Stdin.(*os.File)
			out, isTerminal := i.Stdout.(*os.File)
			if !isFile || !isTerminal || !term.IsTerminal(in) || !term.IsTerminal(out) {
				return misuse(cmd, "runnel attach: it needs a terminal for input and output; "+
					"runnel tasks tail -f shows what a task prints")
			}
			return i.attach(cmd.Context(), l, id, in, out)
		})
	cmd.Flags().SortFlags = false
	i.addSettings(cmd.Flags())
	return cmd
}

// leaveKeys are the keys that leave: Ctrl-P Ctrl-Q, as in docker attach.
var leaveKeys = []byte{'p' & 0x1f, 'q' & 0x1f}

// giveBack undoes what a program may have left of its terminal: colours, a hidden cursor, reports of the
// mouse and of pasted text, other codes of keys.
const giveBack = "\x1b[0m\x1b[?25h\x1b[?7h" +
	"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?1l\x1b>\r\n"

// These begin and end the alternate screen. The end moves the cursor to where it was at the last beginning,
// even if that was another program's.
const (
	beginAlternate = "\x1b[?1049h"
	endAlternate   = "\x1b[?1049l"
)

// resizeInterval is how often the size of the terminal is looked at.
const resizeInterval = 500 * time.Millisecond

// attach attaches a person's terminal to that of a task, and says how the task has ended if it did.
func (i *invocation) attach(ctx context.Context, l *local, id string, in, out *os.File) error {
	v, release, err := l.runner.Follow(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	if v == nil {
		return fmt.Errorf("task %s has ended: runnel tasks result %s shows its result", id, id)
	}
	width, height := term.Size(out)
	if err := v.Send(ctx, tasks.Input{Person: true, Columns: width, Rows: height}); err != nil {
		return fmt.Errorf("task %s: %w", id, err)
	}
	i.Say(zerolog.InfoLevel, "runnel: attached to "+v.Task().Tool+"; Ctrl-P Ctrl-Q leaves")
	err = i.connect(ctx, l, v, in, out)
	if errors.Is(err, errLeft) {
		return nil
	}
	t := v.Task()
	if err == nil && t.Status.Terminal() {
		first, _, _ := strings.Cut(t.StatusMessage, "\n")
		i.Say(zerolog.InfoLevel, strings.TrimSuffix(fmt.Sprintf("runnel: %s has ended: %s, %s", t.Tool,
			t.Status, first), ", "))
	}
	return err
}

// connect connects a person's terminal with that of a task, until the task has ended or the person leaves. A
// read of the terminal cannot be interrupted, so the goroutine that reads it stays until the process ends.
func (i *invocation) connect(ctx context.Context, l *local, v *run.View, in, out *os.File) error {
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	was, err := xterm.MakeRaw(int(in.Fd()))
	if err != nil {
		return fmt.Errorf("attaching: %w", err)
	}
	alternate := false // the alternate screen is shown
	defer func() {
		if alternate {
			_, _ = out.WriteString(endAlternate)
		}
		_, _ = out.WriteString(giveBack) // a terminal that is closed needs no restoring
		_ = xterm.Restore(int(in.Fd()), was)
	}()
	go followSize(ctx, v, out)
	go func() { leave(typeInto(ctx, v, in)) }()
	var shown []byte
	_, err = l.runner.Tail(ctx, v.ID(), 0, true, func(b partials.Batch) error {
		before := min(len(shown), len(beginAlternate)-1) // where a sequence may have begun
		shown = bytes.Clone(shown[len(shown)-before:])
		for _, c := range b.Chunks() {
			if c.Kind == partials.Text {
				for piece := range terminal.Pieces(c.Data) { // a person's terminal keeps its own size
					shown = append(shown, piece.Sent...)
				}
			}
		}
		begin := bytes.LastIndex(shown, []byte(beginAlternate))
		end := bytes.LastIndex(shown, []byte(endAlternate))
		if begin != end {
			alternate = begin > end
		}
		_, err := out.Write(shown[before:])
		return err
	})
	return cmp.Or(context.Cause(ctx), err)
}

// errLeft is the end of an attachment by its person.
var errLeft = errors.New("left")

// typeInto sends what a person types, until the keys that leave.
func typeInto(ctx context.Context, v *run.View, in *os.File) error {
	buf := make([]byte, 4<<10)
	var held []byte // the first of the keys that leave, which decides with the next one
	for {
		n, err := in.Read(buf)
		if err != nil {
			return errLeft // the terminal is closed
		}
		typed := append(held, buf[:n]...)
		held = nil
		if at := bytes.Index(typed, leaveKeys); at >= 0 {
			_ = send(ctx, v, typed[:at]) // the person leaves anyway
			return errLeft
		}
		if last := len(typed) - 1; typed[last] == leaveKeys[0] {
			held = []byte{leaveKeys[0]}
			typed = typed[:last]
		}
		if err := send(ctx, v, typed); err != nil && !errors.Is(err, tasks.ErrEnded) {
			return err
		}
	}
}

// send sends input, and waits while the program has not read the last.
func send(ctx context.Context, v *run.View, typed []byte) (err error) {
	for len(typed) > 0 {
		err = v.Send(ctx, tasks.Input{Data: bytes.Clone(typed), Person: true})
		if !errors.Is(err, tasks.ErrInputFull) || !pause.For(ctx, 100*time.Millisecond) {
			break
		}
	}
	return err
}

// followSize gives the task's terminal the size of the person's whenever that changes.
func followSize(ctx context.Context, v *run.View, out *os.File) {
	width, height := term.Size(out)
	for pause.For(ctx, resizeInterval) {
		if w, h := term.Size(out); w != width || h != height {
			width, height = w, h
			_ = v.Send(ctx, tasks.Input{Person: true, Columns: w, Rows: h}) // the next change tries again
		}
	}
}
