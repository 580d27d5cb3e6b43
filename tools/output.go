package tools

import (
	"context"
	"hash/maphash"
	"io"
	"sync"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tools/secrets"
	"runnel/tools/text"
)

// Output is where a tool writes while it runs: an append to its task's log, from which every
// partial is made. A write waits when the client lags too far (partials.LogOptions.MaxPending).
// It fails when the call has ended, or is cancelled while it waits, and with [partials.ErrLost] when the output cannot be
// stored: the tool should return then. An Output may be used by several goroutines.
type Output struct {
	ctx      context.Context
	log      *partials.Log
	progress func(done, total float64, message string)
	secrets  *secrets.Set // nil = none

	stdout, stderr textWriter

	mu    sync.Mutex
	items map[uint64]int // how often each content item was written, by its hash; the first maxItems
}

// maxItems bounds what an Output remembers of the items that were written to it.
const maxItems = 4096

var itemSeed = maphash.MakeSeed()

// NewOutput makes the output of one call. progress may be nil.
func NewOutput(ctx context.Context, log *partials.Log, progress func(done, total float64, message string)) *Output {
	o := &Output{ctx: ctx, log: log, progress: progress}
	o.stdout = textWriter{out: o, stream: partials.Stdout}
	o.stderr = textWriter{out: o, stream: partials.Stderr}
	return o
}

// Hide masks secrets in all that is written from now on. It is called before anything is.
func (o *Output) Hide(s *secrets.Set) {
	o.secrets, o.stdout.secrets, o.stderr.secrets = s, s.Stream(), s.Stream()
}

// Secrets are what is masked, nil if nothing is: who writes to Log itself masks it first.
func (o *Output) Secrets() *secrets.Set { return o.secrets }

// Log is what is written to.
func (o *Output) Log() *partials.Log { return o.log }

// Write appends text. Each byte that is not UTF-8 becomes U+FFFD; a character that p cuts in two waits for its rest.
func (o *Output) Write(p []byte) (int, error) { return o.stdout.Write(p) }

// WriteString is Write of a string.
func (o *Output) WriteString(s string) error {
	_, err := o.stdout.Write([]byte(s))
	return err
}

// Stderr takes text that is shown as a command's standard error: content items with _meta {"runnel/stream": "stderr"}.
func (o *Output) Stderr() io.Writer { return &o.stderr }

// Content appends content items. The items of one call stay together in one partial.
func (o *Output) Content(items ...mcp.ContentBlock) error {
	var chunks []partials.Chunk
	for _, item := range items {
		if o.secrets != nil {
			chunks = o.hideItem(chunks, item)
		} else {
			chunks = append(chunks, partials.Chunk{Kind: partials.Item, Data: item})
		}
	}
	for i := range chunks {
		chunks[i].More = i < len(chunks)-1
	}
	if err := o.log.Append(o.ctx, chunks...); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.items == nil {
		o.items = map[uint64]int{}
	}
	for _, item := range items {
		if h := maphash.Bytes(itemSeed, item); len(o.items) < maxItems || o.items[h] > 0 {
			o.items[h]++
		}
	}
	return nil
}

// beyond returns the items of a result's content that were not written to the output. ok is false if no item was written: then all are beyond.
func (o *Output) beyond(content []mcp.ContentBlock) (rest []mcp.ContentBlock, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.items == nil {
		return nil, false
	}
	for _, item := range content {
		if h := maphash.Bytes(itemSeed, item); o.items[h] > 0 {
			o.items[h]--
			ok = true
		} else {
			rest = append(rest, item)
		}
	}
	return rest, ok
}

// Progress reports how much is done, in any unit; total 0 means unknown. It never waits for a client
// for longer than the call lasts, and does nothing for one that did not ask for progress.
func (o *Output) Progress(done, total float64, message string) {
	if o.progress != nil {
		o.progress(done, total, o.secrets.String(message))
	}
}

// textWriter makes the valid UTF-8 of one text stream.
type textWriter struct {
	out    *Output
	stream partials.Stream

	mu      sync.Mutex
	utf8    text.Decoder
	secrets *secrets.Stream // nil = none
}

// Write appends text. What the end of p cuts off of a character waits for the rest.
func (w *textWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.put(w.secrets.Write(w.utf8.Decode(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// put appends valid text.
func (w *textWriter) put(valid []byte) error {
	for len(valid) > 0 {
		n := len(valid)
		if n > maxPiece {
			n = text.Whole(valid[:maxPiece])
		}
		if err := w.append(valid[:n]); err != nil {
			return err
		}
		valid = valid[n:]
	}
	return nil
}

func (w *textWriter) append(text []byte) error {
	return w.out.log.Append(w.out.ctx, partials.Chunk{Stream: w.stream, Data: text})
}

// maxPiece is how much one append takes of a long text: what is not yet delivered is bounded between two of them.
const maxPiece = 64 << 10

// end writes what is left of a character that was never finished, and what could have become a secret.
func (o *Output) end() {
	for _, w := range []*textWriter{&o.stdout, &o.stderr} {
		w.mu.Lock()
		if w.put(w.secrets.Write(w.utf8.Flush())) == nil { // it fails only when the call has ended
			_ = w.put(w.secrets.Flush())
		}
		w.mu.Unlock()
	}
}
