package partials

import (
	"context"
	"errors"
	"io"
	"math"
	"sync"
	"time"

	"runnel/rpc/mcp"
)

// Lane is where a pump writes. Write waits for its turn and for room; then encode is called, and what it appends to dst is written.
// An error means that encode was not and will not be called.
type Lane interface {
	Write(ctx context.Context, encode func(dst []byte) []byte) error
}

// PumpOptions of a Pump.
type PumpOptions struct {
	// Pace is the least time between two notifications. 0: every write to the log is a notification of its own.
	Pace time.Duration
	// MaxBytes of content in one notification; a batch that is full goes at once, whatever the pace. 0 = 64 KiB.
	MaxBytes int
	// Sparse keeps the pace at both ends too: the first notification waits, and what is left at the end is not written.
	Sparse bool
}

const (
	// DefaultPace is what SEP-2679 recommends (5.3, "a minimum interval between notifications (e.g., 50ms)").
	DefaultPace = 50 * time.Millisecond
	// DefaultMaxBytes is PumpOptions.MaxBytes where nothing is said.
	DefaultMaxBytes = mcp.MaxText / 2
	// lineOverhead is about what a line is longer than its content: at pace 0 one turn on the lane takes as many lines as fit into MaxBytes.
	lineOverhead = 256
)

// Pump moves a task's output from a reader through a dialect to a lane: the first of it at once, then at most one
// notification per pace. When the client does not read, the lane waits, and the next notification carries more.
type Pump struct {
	r       *Reader
	dialect Dialect
	lane    Lane
	o       PumpOptions

	// Owned by Run.
	next time.Time // when the next notification is due

	mu      sync.Mutex // held while a line is encoded; taken under the lane's lock, so nothing may wait for the lane under it
	stopped bool
	stop    context.CancelCauseFunc // nil but in Run
}

// NewPump makes a pump. It closes r when it is done.
func NewPump(r *Reader, d Dialect, lane Lane, o PumpOptions) *Pump {
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	o.MaxBytes = min(o.MaxBytes, mcp.MaxText)
	if o.Pace == 0 {
		r.each = lineOverhead
	}
	return &Pump{r: r, dialect: d, lane: lane, o: o}
}

// errStopped is why a pump that was stopped returns.
var errStopped = errors.New("pump stopped")

// Run writes out what is appended to the log until the log is closed and all of it is written (nil), or until Stop, ctx or the
// lane ends it.
func (p *Pump) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer p.r.Close()
	p.mu.Lock()
	if p.stop = cancel; p.stopped {
		cancel(errStopped)
	}
	p.mu.Unlock()
	if p.o.Sparse {
		p.next = time.Now().Add(p.o.Pace)
	}
	encode := p.encode
	for ctx.Err() == nil {
		switch err := p.await(ctx); err {
		case nil:
		case io.EOF:
			return p.lane.Write(ctx, p.encodeEnd)
		default:
			return err
		}
		if err := p.load(ctx); err != nil {
			return err
		}
		if err := p.lane.Write(ctx, encode); err != nil {
			return err
		}
		p.next = time.Now().Add(p.o.Pace)
	}
	return context.Cause(ctx)
}

// await returns when there is something to write and it is time for it. What fills a notification, and the end, need no time. It returns
// io.EOF when all is written.
func (p *Pump) await(ctx context.Context) error {
	err := p.r.log.await(ctx, &p.r.cursor, 1)
	if err != nil || p.o.Pace == 0 || !time.Now().Before(p.next) {
		return err
	}
	full := int64(p.o.MaxBytes)
	if p.r.tail {
		full = math.MaxInt64 // it shows little
	}
	timed, cancel := context.WithDeadline(ctx, p.next)
	defer cancel()
	err = p.r.log.await(timed, &p.r.cursor, full)
	switch {
	case timed.Err() != nil && ctx.Err() == nil: // it is time
		return nil
	case err == nil && p.o.Sparse && p.r.tail: // the log was closed, and what is left is not wanted
		return io.EOF
	}
	return err
}

const (
	// loadTries is how often, and loadRetry how soon, output is looked for again that cannot be read: a process may have no file left
	// for a moment.
	loadTries = 100
	loadRetry = 100 * time.Millisecond
)

// load fetches what comes next. Output that cannot be read after all tries is left out, and the client is told so.
func (p *Pump) load(ctx context.Context) error {
	for range loadTries {
		if p.r.load(ctx) == nil {
			return nil
		}
		select {
		case <-time.After(loadRetry):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	p.r.leaveOut()
	return nil
}

// Stop silences the pump: when it returns, nothing more of the output will be written. It does not wait for the client.
func (p *Pump) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	if p.stop != nil {
		p.stop(errStopped)
	} else {
		p.r.Close() // Run may never be called, and Append would wait for the reader
	}
}

// encode is what the lane calls. It reads as late as it can, when its line is written: a client that is slow gets larger batches.
func (p *Pump) encode(dst []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return dst
	}
	b, ok := p.r.Next(p.o.MaxBytes)
	if !ok {
		return dst
	}
	if p.o.Pace > 0 || p.r.tail || b.Lost {
		return p.dialect.Encode(dst, b)
	}
	for len(b.records) > 0 { // each write is a notification
		n := 1
		for n < len(b.records) && b.records[n-1].more {
			n++
		}
		dst = p.dialect.Encode(dst, b.split(n))
	}
	return dst
}

// encodeEnd is encode for the end of the output.
func (p *Pump) encodeEnd(dst []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return dst
	}
	return p.dialect.End(dst)
}
