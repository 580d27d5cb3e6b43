package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"runnel/internal/term"
	"runnel/partials"
	"runnel/tasks"
	"runnel/tools/terminal"
)

// castCommand is "runnel tasks cast".
func (i *invocation) castCommand() *cobra.Command {
	return i.aboutTask("cast ID", "Record what a task has shown, for asciinema",
		`Writes what the terminal of a task has shown so far as an asciicast (version 2), which asciinema plays, asciinema-player
shows on a page, and agg makes a picture of. A task without a terminal is recorded as its lines on one of 120x40. The times are
those that are kept of a task: to a quarter of a second while it is young, later to a 64th of its age.`,
		`  runnel tasks cast 4d8a > session.cast
  asciinema play -i 1 session.cast`,
		func(cmd *cobra.Command, l *local, id string) error {
			t, err := l.runner.Head(cmd.Context(), id)
			if err != nil {
				return err
			}
			w := bufio.NewWriter(i.Stdout)
			return errors.Join(writeCast(cmd.Context(), w, &t), w.Flush())
		})
}

// castColumns and castRows are the size of a recording without one, and of runnel's terminals.
const castColumns, castRows = 120, 40

// writeCast writes the output of a task as an asciicast: https://docs.asciinema.org/manual/asciicast/v2/.
func writeCast(ctx context.Context, w io.Writer, t *tasks.Task) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	var header struct {
		Version   int    `json:"version"`
		Width     int    `json:"width"`
		Height    int    `json:"height"`
		Timestamp int64  `json:"timestamp"`
		Title     string `json:"title"`
	}
	header.Version, header.Timestamp, header.Title = 2, t.CreatedAt.Unix(), t.Tool
	event := func(at time.Duration, kind, data string) error {
		if header.Width == 0 {
			header.Width, header.Height = castColumns, castRows
			if kind == "r" { // the log of a terminal begins with its size
				_, _ = fmt.Sscanf(data, "%dx%d", &header.Width, &header.Height)
			}
			if err := out.Encode(header); err != nil || kind == "r" {
				return err
			}
		}
		return out.Encode([]any{float64(at.Milliseconds()) / 1000, kind, data})
	}
	times, end := t.Times, t.UpdatedAt.Sub(t.CreatedAt)
	if !t.Status.Terminal() {
		end = time.Since(t.CreatedAt)
	}
	read, age := int64(0), time.Duration(0)
	_, err := tasks.Tail(ctx, t.Log, 0, func(b partials.Batch) error {
		if lost := partials.LostWords(b.Start - read); lost != "" {
			if err := event(age, "o", lost+"\r\n"); err != nil {
				return err
			}
		}
		at := b.Start
		for _, c := range b.Chunks() {
			at += int64(len(c.Data))
			for len(times) > 0 && times[0].Bytes < at {
				times = times[1:]
			}
			age = end
			if len(times) > 0 {
				age = times[0].At
			}
			if c.Kind == partials.Item {
				text, _, _ := term.Item(c.Data)
				text = strings.ReplaceAll(strings.TrimSuffix(text, "\n")+"\n", "\n", "\r\n")
				if err := event(age, "o", text); err != nil {
					return err
				}
				continue
			}
			for piece := range terminal.Pieces(c.Data) {
				kind, data := "o", string(piece.Sent)
				if piece.Columns > 0 {
					kind, data = "r", fmt.Sprintf("%dx%d", piece.Columns, piece.Rows)
				}
				if err := event(age, kind, data); err != nil {
					return err
				}
			}
		}
		read = b.End
		return nil
	})
	if err == nil && header.Width == 0 { // nothing has come yet
		err = event(age, "o", "")
	}
	return err
}
