package command

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"runnel/internal/pause"
	"runnel/partials"
	"runnel/tasks"
	"runnel/tools"
	"runnel/tools/process"
	"runnel/tools/text"
)

// passwords looks for prompts for a password on the terminal of a call. A program that asks for one has the
// terminal take a line without showing it, writes a prompt that it does not end, and waits. When it has the
// line, it goes on.
type passwords struct {
	child *process.Child
	log   *partials.Log
	asks  func(*tasks.PasswordPrompt) // tools.Call.AsksPassword

	mu       sync.Mutex
	asked    int64 // the size of the log at the prompt that was looked at last
	answered int64 // that of the last prompt for which a line was typed; -1 = none
}

func newPasswords(in *tools.Call, p *process.Child, log *partials.Log) *passwords {
	return &passwords{child: p, log: log, asks: in.AsksPassword, answered: -1}
}

const (
	// promptPause is how long output pauses before a prompt: shorter than the pause after which a model is
	// answered, which is to see the prompt.
	promptPause = 100 * time.Millisecond
	// promptLooks is how often, at least, a terminal is looked at that has not changed: a program may turn
	// its echo off after the prompt.
	promptLooks = time.Second
	// maxPrompt is how much of the end of the output is read for a prompt, in bytes.
	maxPrompt = 1 << 10
)

// watch looks for prompts until ctx ends, or the output.
func (w *passwords) watch(ctx context.Context) {
	defer w.asks(nil)
	size, at := int64(0), int64(0) // of the log, now and when it had its last text
	for wait := promptPause; ; {
		look, stop := context.WithTimeout(ctx, wait)
		err := w.log.Grown(look, size)
		stop()
		switch {
		case ctx.Err() != nil, errors.Is(err, io.EOF):
			return
		case err == nil:
			wait = promptPause
			before := size
			for size != w.log.Size() {
				if size = w.log.Size(); !pause.For(ctx, promptPause) {
					return
				}
			}
			if w.printed(ctx, before) { // and not only got another size
				at = size
			}
		default:
			wait = min(2*wait, promptLooks)
		}
		w.look(at)
	}
}

// printed reports whether there is text after a position of the log.
func (w *passwords) printed(ctx context.Context, from int64) bool {
	batch, end, err := w.log.ReadAt(ctx, from, maxPrompt)
	return err != nil || end < w.log.Size() || len(text.StripANSI(onTerminal(batch))) > 0
}

// look reports the prompt at the end of the output, or that there is none.
func (w *passwords) look(size int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = size
	if line := w.lastLine(); line != "" && size != w.answered && w.child.HidesInput() {
		w.asks(&tasks.PasswordPrompt{At: size, Text: line})
	} else {
		w.asks(nil)
	}
}

// lastLine returns the unfinished line at the end of the output, as people see it.
func (w *passwords) lastLine() string {
	line := text.StripANSI(onTerminal(w.log.Tail(maxPrompt)))
	line = line[bytes.LastIndexAny(line, "\r\n")+1:]
	return strings.TrimSpace(string(line[max(0, len(line)-maxPrompt):]))
}

// onTerminal returns the text of a batch as a terminal gets it.
func onTerminal(b partials.Batch) (got []byte) {
	for _, c := range b.Chunks() {
		if c.Kind == partials.Text {
			got = text.Decode(got, c.Data)
		}
	}
	return got
}

// typed takes note of what is typed: a line answers the prompt.
func (w *passwords) typed(data []byte) {
	if bytes.ContainsAny(data, "\r\n") {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.answered = w.asked
		w.asks(nil)
	}
}
