package tools

import (
	"context"
	"encoding/json"
	"hash/maphash"
	"io"
	"slices"
	"sync"

	"runnel/internal/shorten"
	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tools/secrets"
	"runnel/tools/text"
)

// Output is where a tool writes while it runs: an append to its task's log, from which every partial is made.
// A write waits if the client lags too far (partials.LogOptions.MaxPending). It fails when the call has
// ended, or is cancelled while it waits, and with [partials.ErrLost] when the output cannot be stored: the
// tool should then return. Several goroutines may use an Output.
type Output struct {
	ctx     context.Context
	log     *partials.Log
	report  func(p tasks.Progress, params json.RawMessage) // nil: it is not reported
	secrets *secrets.Set                                   // nil = none

	stdout, stderr textWriter

	mu    sync.Mutex     // also guards the streams; held while the log takes a piece of one
	items map[uint64]int // how often each content item was written, by hash; the first maxItems
}

// maxItems bounds how many written items an Output remembers.
const maxItems = 4096

var itemSeed = maphash.MakeSeed()

// NewOutput makes the output of one call, for a test of a Tool. progress may be nil.
func NewOutput(ctx context.Context, log *partials.Log,
	progress func(done, total float64, message string)) *Output {
	o := &Output{ctx: ctx, log: log}
	if progress != nil {
		o.report = func(p tasks.Progress, _ json.RawMessage) { progress(p.Done, p.Total, p.Message) }
	}
	o.stdout = textWriter{out: o, stream: partials.Stdout}
	o.stderr = textWriter{out: o, stream: partials.Stderr}
	return o
}

// Secrets returns what is masked, nil if nothing is. Code that writes to Log directly must mask it first.
func (o *Output) Secrets() *secrets.Set { return o.secrets }

// Log returns the task's log.
func (o *Output) Log() *partials.Log { return o.log }

// Write appends text. Each byte that is not UTF-8 becomes U+FFFD; a character that is cut off at the end of p
// waits for its rest.
func (o *Output) Write(p []byte) (int, error) { return o.stdout.Write(p) }

// WriteString is Write for a string.
func (o *Output) WriteString(s string) error {
	_, err := o.stdout.Write([]byte(s))
	return err
}

// Stderr returns a writer for text that is shown as a command's standard error: content items with _meta
// {"runnel/stream": "stderr"}.
func (o *Output) Stderr() io.Writer { return &o.stderr }

// Content appends content items. The items of one call stay together in one partial.
func (o *Output) Content(items ...mcp.ContentBlock) error {
	o.mu.Lock()
	defer o.mu.Unlock()
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

// beyond returns the items of a result's content that were not written to the output. ok is false if no item
// was written at all.
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

// Progress reports how much is done, in any unit; a total of 0 means unknown. It waits for a client no longer
// than the call lasts, and does nothing if the client did not ask for progress.
func (o *Output) Progress(done, total float64, message string) {
	if o.report != nil {
		o.report(tasks.Progress{Done: done, Total: total, Message: o.secrets.String(message)}, nil)
	}
}

// PassProgress is Progress with the params of another server's notification, which a client gets as they are.
func (o *Output) PassProgress(done, total float64, message string, params json.RawMessage) {
	if o.report != nil {
		o.report(tasks.Progress{Done: done, Total: total, Message: o.secrets.String(message)},
			o.secrets.JSON(params))
	}
}

// textWriter writes one text stream as valid UTF-8.
type textWriter struct {
	out    *Output
	stream partials.Stream

	// Guarded by out.mu.
	utf8    text.Decoder
	secrets *secrets.Stream // nil = none
}

// Write appends text. A character that is cut off at the end of p waits for its rest.
func (w *textWriter) Write(p []byte) (int, error) {
	w.out.mu.Lock()
	defer w.out.mu.Unlock()
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
			n = shorten.Whole(valid[:maxPiece])
		}
		piece := partials.Chunk{Stream: w.stream, Data: valid[:n]}
		if err := w.out.log.Append(w.out.ctx, piece); err != nil {
			return err
		}
		valid = valid[n:]
	}
	return nil
}

// maxPiece is how much of a long text one append takes: between two of them, undelivered output is bounded.
const maxPiece = 64 << 10

// flush writes what is left of an unfinished character, and what could have become a secret.
func (o *Output) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, w := range []*textWriter{&o.stdout, &o.stderr} {
		if w.put(w.secrets.Write(w.utf8.Flush())) == nil { // it fails only if the call has ended
			_ = w.put(w.secrets.Flush())
		}
	}
}

// hideItem appends a content item without secrets. A secret that is split between two texts is found, too: a
// text is a piece of its stream, and what may become a secret waits for the next piece. Any other item is
// masked separately, after what waits. o.mu is held.
func (o *Output) hideItem(chunks []partials.Chunk, item mcp.ContentBlock) []partials.Chunk {
	text, ok := mcp.TextOf(item)
	w := &o.stdout
	if rawjson.StringMember(rawjson.Member(item, "_meta"), mcp.MetaStream) == mcp.StreamStderr {
		w = &o.stderr
	}
	if !ok {
		if rest := w.secrets.Flush(); len(rest) > 0 {
			chunks = append(chunks, partials.Chunk{Stream: w.stream, Data: slices.Clone(rest)})
		}
		return append(chunks, partials.Chunk{Kind: partials.Item, Data: o.secrets.JSON(item)})
	}
	settled := string(w.secrets.Write([]byte(text)))
	switch settled {
	case text:
		item = o.secrets.JSON(item) // its other members
	case "":
		return chunks
	default:
		item = o.secrets.JSON(rawjson.WithMember(item, "text", settled))
	}
	return append(chunks, partials.Chunk{Kind: partials.Item, Data: item})
}
