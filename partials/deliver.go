package partials

import (
	"context"
	"errors"
	"io"
	"math"
	"sync"
	"time"

	"runnel/internal/pause"
	"runnel/rpc/mcp"
)

// Lane is an output that several writers share.
// rpc.Caller is one; implement it to send output somewhere else.
type Lane interface {
	// Write waits for its turn, as long as ctx lasts. Then encode is called, and what it appends to dst is
	// written. encode is never called after Write has returned, and not at all if that returns an error.
	Write(ctx context.Context, encode func(dst []byte) []byte) error
}

// DeliverOptions say how output is delivered.
type DeliverOptions struct {
	// Pace is the shortest time between two notifications. 0: each write to the log is a notification of its
	// own.
	Pace time.Duration
	// MaxBytes limits the content of a notification; a full batch is sent without waiting for the pace.
	// 0 = DefaultMaxBytes.
	MaxBytes int
	// Colors says that the client shows the output to a person, on a terminal: it gets the colours that the
	// log keeps (text.LogColor), except in SEP-1905's segments, which all clients get alike.
	Colors bool
}

const (
	// DefaultPace is what SEP-2679 recommends (5.3, "a minimum interval between notifications (e.g., 50ms)").
	DefaultPace = 50 * time.Millisecond
	// DefaultMaxBytes is the default of DeliverOptions.MaxBytes: 64 KiB.
	DefaultMaxBytes = mcp.MaxText / 2
	// lineOverhead is about how much longer a line is than its content: at pace 0, a turn on the lane takes
	// as many lines as fit into MaxBytes.
	lineOverhead = 256
)

// Deliver writes a task's output from r through a dialect to a lane, until the log is closed and all of it is
// written (nil), ctx ends, or the lane fails. The first output goes out as it comes, then at most one
// notification per pace. While the client does not read, the lane waits, and the next notification carries
// more. Deliver closes r.
func Deliver(ctx context.Context, r *Reader, d Dialect, lane Lane, o DeliverOptions) error {
	defer r.Close()
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	o.MaxBytes = min(o.MaxBytes, mcp.MaxText)
	if o.Pace == 0 {
		r.perChunk = lineOverhead
	}
	w := r.log.newWaiter(r.pos, 1)
	defer r.log.forget(w)
	full := int64(1)
	if o.Pace > 0 {
		full = int64(o.MaxBytes)
	}
	// It reads when its line is written, as late as possible: a slow client gets larger batches.
	encode := func(dst []byte) []byte {
		r.log.mu.Lock()
		b, ok := r.advance(o.MaxBytes)
		r.log.watch(w, r.pos, full)
		r.log.mu.Unlock()
		if !ok { // memory has released it since: only the backing has it
			return dst
		}
		b.Colors = o.Colors
		if o.Pace == 0 && !b.Lost {
			return encodeWrites(dst, d, b)
		}
		return d.Encode(dst, b)
	}
	var late <-chan time.Time
	for {
		switch err := r.log.wait(ctx, w, late); {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == io.EOF:
			return lane.Write(ctx, d.End)
		}
		r.loadOrSkip(ctx)
		if err := lane.Write(ctx, encode); err != nil {
			return err
		}
		if o.Pace > 0 {
			late = time.After(o.Pace)
		}
	}
}

// encodeWrites appends a notification for each write to the log.
func encodeWrites(dst []byte, d Dialect, b Batch) []byte {
	for len(b.records) > 0 {
		n := 1
		for n < len(b.records) && b.records[n-1].more {
			n++
		}
		dst = d.Encode(dst, b.split(n))
	}
	return dst
}

const (
	// loadTries is how often reading is tried, and loadRetry the time between two tries: a process may be out
	// of file descriptors for a moment.
	loadTries = 100
	loadRetry = 100 * time.Millisecond
)

// loadOrSkip loads what comes next, if memory does not have it. What cannot be read in all tries is skipped,
// with a note to the client.
func (r *Reader) loadOrSkip(ctx context.Context) {
	for range loadTries {
		if r.load(ctx) == nil {
			return
		}
		if !pause.For(ctx, loadRetry) {
			return
		}
	}
	r.skipUnloaded()
}

// DeliverLastLine shows a client only the last output (tailBytes of it, which hold its last line), at most
// once per pace. What comes in between is skipped, and Append waits for none of it. The rest is as for
// Deliver. If late is set, the first waits for the pace, too, and nothing is shown once the log is closed.
func DeliverLastLine(
	ctx context.Context, log *Log, d Dialect, lane Lane, pace time.Duration, late bool,
) error {
	first, full := int64(1), int64(1)
	if pace > 0 {
		full = math.MaxInt64 // only the end needs no pace
	}
	var paced <-chan time.Time
	if late {
		first, paced = full, time.After(pace)
	}
	w := log.newWaiter(0, first)
	defer log.forget(w)
	encode := func(dst []byte) []byte {
		log.mu.Lock()
		b := log.tail(tailBytes)
		log.watch(w, log.end, full)
		log.mu.Unlock()
		if len(b.records) == 0 { // memory may hold nothing of a followed log
			return dst
		}
		return d.Encode(dst, b)
	}
	for {
		switch err := log.wait(ctx, w, paced); {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == io.EOF, late && log.Closed():
			return lane.Write(ctx, d.End)
		}
		if err := lane.Write(ctx, encode); err != nil {
			return err
		}
		if pace > 0 {
			paced = time.After(pace)
		}
	}
}

// tailBytes is how much of the end is read for the last line.
const tailBytes = 4 << 10

// Gate is a Lane that can be closed: after Close has returned, nothing more is written through it. Close does
// not wait for the client.
type Gate struct {
	Lane Lane

	mu     sync.Mutex // held while a line is encoded; taken under no lock of the lane's
	closed bool
}

// errGateClosed is the error of a Write through a closed gate.
var errGateClosed = errors.New("the delivery has ended")

// Write implements Lane.
func (g *Gate) Write(ctx context.Context, encode func(dst []byte) []byte) (err error) {
	failed := g.Lane.Write(ctx, func(dst []byte) []byte {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.closed {
			err = errGateClosed
			return dst
		}
		return encode(dst)
	})
	if failed != nil {
		return failed
	}
	return err
}

// Close closes the gate.
func (g *Gate) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}
