package partials

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"runnel/rpc/mcp"
)

// Lane is where a pump writes. Write waits for its turn and for room, and calls encode at most once; what encode
// appends to dst is written. An error means that encode was not called. WriteNow is Write for those who must not wait: it
// reports false where Write would.
type Lane interface {
	Write(ctx context.Context, encode func(dst []byte) []byte) error
	WriteNow(encode func(dst []byte) []byte) (bool, error)
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
//
// It has no goroutine while it waits, for more in the log or for the time of the next notification: whichever comes gives
// it its next turn. What is appended to a log that was quiet is written by the one who appends. That spares a thousand tasks
// that write now and then a thousand stacks, and each of their chunks two goroutines that must be woken one after the other.
//
// So either one goroutine has the turn (turn), or the pump waits (waits) and whoever sets waits to false takes the turn, or it has
// ended (finish).
type Pump struct {
	r       *Reader
	dialect Dialect
	liner   liner // dialect, if it is one and each write is a notification
	lane    Lane
	o       PumpOptions
	emit    func(dst []byte) []byte // encode
	wake    func(hurry bool)        // woken
	ctx     context.Context
	done    func(error)

	// Owned by who has the turn.
	next time.Time // of the next notification
	last time.Time // of the last one
	end  bool      // what is written now is the end

	mu      sync.Mutex // held while a line is encoded; taken under the lane's lock, so nothing may wait for the lane under it
	waits   bool
	timer   *time.Timer // runs while the pump waits for its time; nil before the first time
	stopped bool
	stop    context.CancelFunc // nil but in Run
	pos     int64              // behind what was encoded
}

// NewPump makes a pump. It closes r when it is done.
func NewPump(r *Reader, d Dialect, lane Lane, o PumpOptions) *Pump {
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	o.MaxBytes = min(o.MaxBytes, mcp.MaxText)
	var lines liner
	if o.Pace == 0 {
		r.overhead = lineOverhead
		lines, _ = d.(liner)
	} else {
		r.joins = true // to look at each of a thousand small chunks again was a fifth of what they cost
	}
	p := &Pump{r: r, dialect: d, lane: lane, o: o, pos: r.Pos(), liner: lines}
	p.emit, p.wake = p.encode, p.woken
	return p
}

// errStopped is why a pump that was stopped returns.
var errStopped = errors.New("pump stopped")

// quiet is how long a pump must have written nothing for an append to be written by the one who appends. A tool that appends all the
// time would be held up by a write for each chunk; a goroutine that follows it writes many at once.
const quiet = time.Millisecond

// Start writes out what is appended to the log until the log is closed and all of it is written (nil), or until Stop or
// the lane ends it; then it calls done, once. It does not wait for that, nor for the client. When ctx has ended nothing more
// is written and what a goroutine of the pump waits for ends, but only Stop wakes a pump that waits; ctx must end soon after it.
func (p *Pump) Start(ctx context.Context, done func(error)) {
	p.ctx, p.done = ctx, done
	if p.o.Sparse {
		p.next = time.Now().Add(p.o.Pace)
	}
	p.turn(true)
}

// Run is Start for those who wait for the end. The end of ctx is one, too.
func (p *Pump) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.mu.Lock()
	p.stop = cancel
	p.mu.Unlock()
	done := make(chan error, 1)
	p.Start(ctx, func(err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		p.Stop()
		return <-done
	}
}

// turn writes what there is to write. When it returns, the pump waits for its next turn, has ended, or goes on in a
// goroutine: with hurry, all that may have to wait is left to that, and so is what has come meanwhile.
func (p *Pump) turn(hurry bool) {
	for first := true; ; first = false {
		ready, err := p.ready()
		switch {
		case err == io.EOF:
			p.end, err = true, nil
		case err != nil:
			p.finish(err)
			return
		case !ready:
			return
		}
		if hurry {
			written := false
			if first && p.r.atHand() {
				written, err = p.lane.WriteNow(p.emit)
			}
			if err == nil && !written {
				go p.turn(false)
				return
			}
		} else if err = p.load(); err == nil {
			err = p.lane.Write(p.ctx, p.emit)
		}
		if err != nil || p.end {
			p.finish(err)
			return
		}
		p.last = time.Now()
		p.next = p.last.Add(p.o.Pace)
	}
}

const (
	// loadTries is how often, and loadRetry how soon, output is looked for again that cannot be read: a process may have no file left
	// for a moment.
	loadTries = 100
	loadRetry = 100 * time.Millisecond
)

// load fetches what comes next. What cannot be read at last is left out, and the client told so: the end says that there is no more.
func (p *Pump) load() error {
	for range loadTries {
		if p.r.load(p.ctx) == nil {
			return nil
		}
		select {
		case <-time.After(loadRetry):
		case <-p.ctx.Done():
			return context.Cause(p.ctx)
		}
	}
	p.r.leaveOut()
	return nil
}

// ready reports whether there is something to write now; io.EOF says that it is the end. If not, the pump waits from here on.
func (p *Pump) ready() (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return false, errStopped
	}
	if p.ctx.Err() != nil {
		return false, context.Cause(p.ctx)
	}
	ready, err := p.r.park(1, p.wake)
	if left := p.left(); ready && left > 0 {
		ready, err = p.early(left)
	}
	p.waits = !ready && err == nil
	return ready, err
}

// early is ready before the time of the next notification, which is left: for a batch that is full, and at the end. p.mu is held.
func (p *Pump) early(left time.Duration) (bool, error) {
	full := int64(p.o.MaxBytes)
	if p.r.tail {
		full = math.MaxInt64 // what it shows is never much
	}
	ready, err := p.r.park(full, p.wake)
	switch {
	case ready && p.o.Sparse && p.r.tail:
		return true, io.EOF // the log was closed, and what is left is not wanted
	case ready:
	case p.timer == nil:
		p.timer = time.AfterFunc(left, func() { p.woken(false) })
	default:
		p.timer.Reset(left)
	}
	return ready, err
}

// left is how long it is until the next notification may be written.
func (p *Pump) left() time.Duration {
	if p.o.Pace == 0 {
		return 0
	}
	return time.Until(p.next)
}

// woken gives the pump its next turn if it waits. With hurry it comes from an append.
func (p *Pump) woken(hurry bool) {
	p.mu.Lock()
	waited := p.waits
	p.unwait()
	p.mu.Unlock()
	switch {
	case !waited:
	case hurry && p.o.Pace < quiet && time.Since(p.last) < quiet:
		go p.turn(false)
	default:
		p.turn(hurry)
	}
}

// unwait takes back what the pump waits for. p.mu is held.
func (p *Pump) unwait() {
	p.waits = false
	p.r.unpark()
	if p.timer != nil {
		p.timer.Stop()
	}
}

// finish ends the pump. Whoever has the turn calls it.
func (p *Pump) finish(err error) {
	p.r.Close()
	p.done(err)
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
	if p.waits {
		p.unwait()
		go p.finish(errStopped)
	}
}

// encode is what the lane calls. It reads as late as it can, when its line is written: a client that is slow gets larger batches.
func (p *Pump) encode(dst []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.stopped:
		return dst
	case p.end:
		return p.dialect.End(dst)
	}
	if p.liner != nil {
		if lines := p.lines(dst, p.liner); len(lines) > len(dst) {
			return lines
		}
	}
	b, ok := p.r.Next(p.o.MaxBytes)
	if !ok {
		return dst
	}
	if b.Start > p.pos && !p.r.tail {
		dst = p.tellLost(dst, b.Start)
	}
	p.pos = b.End
	if p.o.Pace > 0 || p.r.tail || b.Lost {
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

// tellLost tells a client whose reader came late, when the log had let its beginning go, what it has missed.
func (p *Pump) tellLost(dst []byte, start int64) []byte {
	note := Chunk{Data: fmt.Appendf(nil, "[%d bytes of output are no longer kept]\n", start-p.pos)}
	return p.dialect.Encode(dst, Batch{Chunks: []Chunk{note}, Start: p.pos, End: start, Lost: true})
}
