package command

import (
	"bytes"
	"context"
	"errors"
	"io"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"runnel/internal/pause"
	"runnel/partials"
	"runnel/tasks"
	"runnel/tools"
	"runnel/tools/process"
	"runnel/tools/text"
)

// passwords looks for prompts for a password on the terminal of a call. A program that asks for one has the
// terminal not show what is typed, writes a prompt, and waits. When it has the line, it goes on.
type passwords struct {
	child     *process.Child
	log       *partials.Log
	asks      func(*tasks.PasswordPrompt) // tools.Call.AsksPassword
	alternate *atomic.Bool                // the program draws the whole screen

	mu     sync.Mutex
	prompt *tasks.PasswordPrompt // what it asks a password with; nil = with nothing
	asked  int64                 // the size of the log at the last look
	// That at the prompt for which a person has typed the last line; -1 = there was none.
	answered   int64
	answeredAt time.Time
}

func newPasswords(in *tools.Call, p *process.Child, r *record) *passwords {
	return &passwords{
		child: p, log: r.out.Log(), asks: in.AsksPassword, alternate: &r.stdout.alternate, answered: -1,
	}
}

const (
	// promptPause is how long output pauses before a prompt: shorter than the pause after which a model is
	// answered, which is to see the prompt.
	promptPause = 100 * time.Millisecond
	// promptLooks is how often, at least, a terminal is looked at that has not changed: a program may turn
	// its echo off after the prompt.
	promptLooks = time.Second
	// promptAgain is how long a program has to go on that was given a line. One that still waits asks again.
	promptAgain = 3 * time.Second
	// maxPrompt is how much of the end of the output is read for a prompt, in bytes.
	maxPrompt = 1 << 10
)

// watch looks for prompts until ctx ends, or the output.
func (w *passwords) watch(ctx context.Context) {
	defer w.report(nil, 0)
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
			for pauses := 1; size != w.log.Size(); pauses++ {
				if size = w.log.Size(); !pause.For(ctx, promptPause) {
					return
				}
				if pauses == 3 { // it goes on printing
					w.report(nil, size)
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
	prompt, asked := w.prompt, w.asked
	answered := size == w.answered && time.Since(w.answeredAt) < promptAgain
	w.mu.Unlock()
	switch line := w.line(); {
	case line == "" || answered:
		prompt = nil
	case prompt == nil || asked != size || prompt.Text != line:
		prompt = &tasks.PasswordPrompt{At: time.Now().UnixNano(), Text: line}
	}
	w.report(prompt, size)
}

func (w *passwords) report(prompt *tasks.PasswordPrompt, size int64) {
	w.mu.Lock()
	w.prompt, w.asked = prompt, size
	w.mu.Unlock()
	w.asks(prompt) // which may wait for the state
}

// line returns the line that the program asks for a password with; "" if it asks for none. That is a question
// before the cursor. A line that the program has ended, and one of a program that reads single keys, since it
// shows stars or is behind ssh, has to name the password, too. A program that never shows what is typed ends
// its prompts otherwise.
func (w *passwords) line() string {
	hides, keys := w.child.HidesInput()
	if !hides || keys && w.alternate.Load() {
		return ""
	}
	shown := bytes.TrimRight(text.StripANSI(onTerminal(w.log.Tail(maxPrompt))), " \t")
	line := bytes.TrimSpace(shown[bytes.LastIndexAny(shown, "\r\n")+1:])
	plain := len(line) > 0 && !keys
	if len(line) == 0 && !keys {
		shown = bytes.TrimSpace(shown)
		line = bytes.TrimSpace(shown[bytes.LastIndexAny(shown, "\r\n")+1:])
	}
	asks := slices.ContainsFunc([]string{":", "：", "?"},
		func(end string) bool { return bytes.HasSuffix(line, []byte(end)) })
	if !asks || !plain && !passwordWord().Match(line) {
		return ""
	}
	return string(line)
}

// passwordWord matches the word in the languages into which programs are translated most.
var passwordWord = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)passwor[dt]|passphrase|passcode|kennwort|mot de passe|contraseña|senha|пароль|密码|密碼|パスワード|\bPIN\b`)
})

// onTerminal returns the text of a batch as a terminal gets it.
func onTerminal(b partials.Batch) (got []byte) {
	for _, c := range b.Chunks() {
		if c.Kind == partials.Text {
			got = text.Decode(got, c.Data)
		}
	}
	return got
}

// typed takes note of what is typed: a line of a person answers the prompt. A model may press Enter, which
// does not.
func (w *passwords) typed(in tasks.Input) {
	if in.Person && bytes.ContainsAny(in.Data, "\r\n") {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.answered, w.answeredAt = w.asked, time.Now()
	}
}

// waits reports whether the program still waits at a prompt.
func (w *passwords) waits(prompt int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	hides, _ := w.child.HidesInput()
	return hides && w.prompt != nil && w.prompt.At == prompt
}
