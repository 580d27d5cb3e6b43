package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"runnel/internal/pause"
	"runnel/internal/term"
	"runnel/tasks"
)

// watchPace is how often a command with --watch looks.
const watchPace = time.Second

// again calls once each watchPace, until that fails or ctx ends.
func again(ctx context.Context, once func() error) error {
	for {
		err := once()
		if err != nil && ctx.Err() == nil {
			return err
		}
		if !pause.For(ctx, watchPace) {
			return interrupted(ctx)
		}
	}
}

// drawAgain draws a title and a text on a terminal once a second, as much as fits, until ctx ends. The last
// text stays on the screen.
func drawAgain(ctx context.Context, out io.Writer, title string,
	show func(context.Context) (string, error)) error {
	frame := "\x1b[2J"
	return again(ctx, func() error {
		text, err := show(ctx)
		if ctx.Err() != nil {
			return err
		}
		if err != nil { // a cluster that elects a leader answers again soon
			text = term.Printable("the state does not answer: " + err.Error())
		}
		width, height := term.Size(out)
		lines := strings.Split(title+"  "+time.Now().Format(time.TimeOnly)+"\n\n"+
			strings.TrimSuffix(text, "\n"), "\n")
		if room := max(height-1, 2); len(lines) > room { // the cursor stands on the last line
			lines = append(lines[:room-1], fmt.Sprintf("%d more lines", len(lines)-room+1))
		}
		frame += "\x1b[H"
		for _, line := range lines {
			frame += term.Clip(line, width-1) + "\x1b[K\n"
		}
		_, err = io.WriteString(out, frame+"\x1b[J")
		frame = ""
		return err
	})
}

// writeChanges writes a text each time that it has changed, until ctx ends.
func writeChanges(ctx context.Context, out io.Writer, show func(context.Context) (string, error)) error {
	before := ""
	return again(ctx, func() error {
		text, err := show(ctx)
		switch {
		case errors.Is(err, tasks.ErrBusy): // as above
			return nil
		case err != nil || text == before:
			return err
		}
		before = text
		_, err = io.WriteString(out, text)
		return err
	})
}
