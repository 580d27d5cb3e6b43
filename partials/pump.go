package partials

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"time"
)

// Lane is where a pump writes. Write waits for its turn and for room, and calls encode at most once; what encode
// appends to dst is written. An error means that encode was not called.
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
	DefaultPace     = 50 * time.Millisecond
	defaultMaxBytes = 64 << 10
	// maxMaxBytes keeps a line below 1 MiB even if every byte is escaped.
	maxMaxBytes = 128 << 10
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

	mu      sync.Mutex // held while a line is encoded; taken under the lane's lock, so nothing may wait for the lane under it
	stopped bool
	pos     int64              // behind what was encoded
	stop    context.CancelFunc // nil before Run
}

// NewPump makes a pump. It closes r when it is done.
func NewPump(r *Reader, d Dialect, lane Lane, o PumpOptions) *Pump {
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultMaxBytes
	}
	o.MaxBytes = min(o.MaxBytes, maxMaxBytes)
	if o.Pace == 0 {
		r.overhead = lineOverhead
	} else {
		r.joins = true // to look at each of a thousand small chunks again was a fifth of what they cost
	}
	return &Pump{r: r, dialect: d, lane: lane, o: o, pos: r.Pos()}
}

// errStopped is why a pump that was stopped returns.
var errStopped = errors.New("pump stopped")

// Run writes out what is appended to the log until the log is closed and all of it is written (nil), or until
// Stop, ctx or the lane ends it.
func (p *Pump) Run(ctx context.Context) error {
	defer p.r.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.mu.Lock()
	stopped := p.stopped
	p.stop = cancel
	p.mu.Unlock()
	if stopped {
		return errStopped
	}
	var next time.Time
	if p.o.Sparse {
		next = time.Now().Add(p.o.Pace)
	}
	for {
		if err := p.r.Wait(ctx, 1); err == io.EOF {
			return p.write(ctx, p.dialect.End)
		} else if err != nil {
			return err
		}
		if err := p.rest(ctx, next); err == io.EOF {
			return p.write(ctx, p.dialect.End)
		} else if err != nil {
			return err
		}
		if err := p.write(ctx, p.encode); err != nil {
			return err
		}
		next = time.Now().Add(p.o.Pace)
	}
}

// rest waits for the next notification's time, or until there is enough for a full one. It returns io.EOF
// if the log was closed meanwhile and what is left is not wanted.
func (p *Pump) rest(ctx context.Context, next time.Time) error {
	left := time.Until(next)
	if p.o.Pace == 0 || left <= 0 {
		return nil
	}
	full := int64(p.o.MaxBytes)
	if p.r.tail {
		full = math.MaxInt64
	}
	timeout, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	switch err := p.r.Wait(timeout, full); {
	case err == nil && p.o.Sparse && p.r.tail:
		return io.EOF // there never is enough for a tail reader: the log was closed
	case err == nil || timeout.Err() != nil && ctx.Err() == nil:
		return nil
	default:
		return err
	}
}

func (p *Pump) write(ctx context.Context, encode func(dst []byte) []byte) error {
	stopped := false
	err := p.lane.Write(ctx, func(dst []byte) []byte {
		p.mu.Lock()
		defer p.mu.Unlock()
		if stopped = p.stopped; stopped {
			return dst
		}
		return encode(dst)
	})
	if err == nil && stopped {
		err = errStopped
	}
	return err
}

// encode reads as late as it can, when its line is written: a client that is slow gets larger batches.
func (p *Pump) encode(dst []byte) []byte {
	b, ok := p.r.Next(p.o.MaxBytes)
	if !ok {
		return dst
	}
	if lost := b.Start - p.pos; lost > 0 && !p.r.tail {
		// A reader that came late, when the log had let its beginning go.
		note := Chunk{Data: fmt.Appendf(nil, "[%d bytes of output are no longer kept]\n", lost)}
		dst = p.dialect.Encode(dst, Batch{Chunks: []Chunk{note}, Start: p.pos, End: b.Start})
	}
	p.pos = b.End
	if p.o.Pace > 0 || p.r.tail {
		return p.dialect.Encode(dst, b)
	}
	write := Batch{Start: b.Start, End: b.Start}
	for begin, i := 0, 0; i < len(b.Chunks); i++ {
		write.End += int64(len(b.Chunks[i].Data))
		if !b.Chunks[i].More || i == len(b.Chunks)-1 {
			write.Chunks = b.Chunks[begin : i+1]
			dst = p.dialect.Encode(dst, write)
			write.Start, begin = write.End, i+1
		}
	}
	return dst
}

// Stop silences the pump: when it returns, nothing more of the output will be written. It does not wait for the client.
func (p *Pump) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	if p.stop != nil {
		p.stop()
	}
	p.r.Close()
}
