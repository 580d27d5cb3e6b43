package partials

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"runnel/internal/pause"
	"runnel/rpc/mcp"
)

// Lane is an output that several writers share.
// rpc.Caller is one; implement it to send output somewhere else.
type Lane interface {
	// Turns registers a writer. enter asks for its next turn, once the last one has begun. In a turn, encode
	// is called, and what it appends to dst is written. If there will be no turn, over is called with the
	// reason. leave withdraws the request if it is not too late.
	// enter and leave do not wait, and do not call encode or over themselves: both may be called under locks,
	// and from within encode.
	Turns(encode func(dst []byte) []byte, over func(err error)) (enter, leave func())
}

// PumpOptions configure a Pump.
type PumpOptions struct {
	// Pace is the shortest time between two notifications. 0: each write to the log is a notification of its
	// own.
	Pace time.Duration
	// MaxBytes limits the content of a notification; a full batch is sent at once, without waiting for the
	// pace. 0 = DefaultMaxBytes.
	MaxBytes int
	// Sparse applies the pace to both ends, too: the first notification waits, and what is left at the end is
	// not written.
	Sparse bool
	// Colors says that the client shows the output to a person, on a terminal: it gets the colours that the
	// log keeps (text.LogColor), except in SEP-1905's segments, which all clients get alike.
	Colors bool
}

const (
	// DefaultPace is what SEP-2679 recommends (5.3, "a minimum interval between notifications (e.g., 50ms)").
	DefaultPace = 50 * time.Millisecond
	// DefaultMaxBytes is the default of PumpOptions.MaxBytes: 64 KiB.
	DefaultMaxBytes = mcp.MaxText / 2
	// lineOverhead is about how much longer a line is than its content: at pace 0, a turn on the lane takes
	// as many lines as fit into MaxBytes.
	lineOverhead = 256
)

// Pump moves a task's output from a reader through a dialect to a lane: the first of it at once, then at most
// one notification per pace. While the client does not read, the lane waits, and the next notification
// carries more.
// Make one for each request that is answered with output as it comes.
//
// A pump has no goroutine of its own, so that thousands of them take little memory and a chunk costs no
// switch between goroutines: the goroutine that appends to the log, or a timer, asks for a turn on the lane,
// which calls encode. At any time one of these will continue the pump:
//
//	the log (wake) ─▶ the lane (encode) ─▶ the log and, with a pace, a timer (paceOver), which lets the log wake it at the next byte
//	  └─▶ load, a goroutine, if only the backing has what comes next ─▶ the lane
type Pump struct {
	r       *Reader
	dialect Dialect
	o       PumpOptions

	waiter waiter // for output
	enter  func() // asks for a turn on the lane
	leave  func() // withdraws that request

	mu         sync.Mutex // held while a line is encoded; taken under no lock of the lane's, and nothing may wait under it
	ctx        context.Context
	done       func(error) // nil before Start and after the end
	stopped    bool
	endWritten bool        // the end has been written
	next       time.Time   // with a pace: when the next notification is due
	timer      *time.Timer // runs until then
}

// NewPump makes a pump, which closes r when it is done.
// Call Start or Run next.
func NewPump(r *Reader, d Dialect, lane Lane, o PumpOptions) *Pump {
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	o.MaxBytes = min(o.MaxBytes, mcp.MaxText)
	if o.Pace == 0 {
		r.perChunk = lineOverhead
	}
	p := &Pump{r: r, dialect: d, o: o}
	p.waiter.wake = p.wake
	p.enter, p.leave = lane.Turns(p.encode, p.end)
	return p
}

// errStopped is the reason for the end of a pump that was stopped.
var errStopped = errors.New("pump stopped")

// Start writes what is appended to the log until the log is closed and all of it is written, until Stop, or
// until the lane is gone. Then it calls done, once, with nil or the reason; done must not wait. The end of
// ctx stops reads from a backing: cancel it after Stop.
func (p *Pump) Start(ctx context.Context, done func(error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		go done(errStopped)
		return
	}
	p.ctx, p.done = ctx, done
	if p.o.Sparse {
		p.awaitPaced()
	} else {
		p.await(1)
	}
}

// Run is Start for callers that wait for the end. It also ends when ctx does.
// Use it on a goroutine that has nothing else to do.
func (p *Pump) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if ctx.Err() != nil {
		p.Stop()
	}
	defer context.AfterFunc(ctx, p.Stop)()
	done := make(chan error, 1)
	p.Start(ctx, func(err error) { done <- err })
	return <-done
}

// Stop ends the pump: after it has returned, no more output is written. It does not wait for the client.
// Call it when the client has cancelled the request.
func (p *Pump) Stop() { p.end(errStopped) }

// end ends the pump, once.
func (p *Pump) end(err error) {
	p.mu.Lock()
	done := p.done
	p.stopped, p.done = true, nil
	if p.timer != nil {
		p.timer.Stop()
	}
	p.r.log.unwatch(&p.waiter)
	p.r.Close()
	p.leave()
	p.mu.Unlock()
	if done != nil {
		done(err)
	}
}

// await asks for the next turn when there are n bytes to write, or at the end.
func (p *Pump) await(n int64) { p.r.log.watch(&p.waiter, &p.r.cursor, n) }

// awaitPaced asks for the next turn when the pace is over, or before that for a full batch or the end. mu is
// held.
func (p *Pump) awaitPaced() {
	p.next = time.Now().Add(p.o.Pace)
	if p.timer == nil {
		p.timer = time.AfterFunc(p.o.Pace, p.paceOver)
	} else {
		p.timer.Reset(p.o.Pace)
	}
	if p.r.tail {
		p.await(math.MaxInt64) // it shows only the last line, so no batch is ever full
	} else {
		p.await(int64(p.o.MaxBytes))
	}
}

// paceOver is called by the timer.
func (p *Pump) paceOver() {
	p.mu.Lock() // the timer may be faster than awaitPaced
	defer p.mu.Unlock()
	if !time.Now().Before(p.next) { // otherwise a full notification has gone out meanwhile
		p.r.log.wakeEarly(&p.waiter, &p.r.cursor)
	}
}

// wake is called by the log, under its lock, when there is something to write, or the end.
func (p *Pump) wake() {
	if p.r.needsLoad() {
		go p.load()
	} else {
		p.enter()
	}
}

const (
	// loadTries is how often reading is tried, and loadRetry the time between two tries: a process may be out
	// of file descriptors for a moment.
	loadTries = 100
	loadRetry = 100 * time.Millisecond
)

// load reads what comes next, and asks for a turn. Output that cannot be read in all tries is left out, with
// a note to the client.
func (p *Pump) load() {
	for range loadTries {
		if p.r.load(p.ctx) == nil {
			p.enter()
			return
		}
		if !pause.For(p.ctx, loadRetry) {
			return
		}
	}
	p.r.skipUnloaded()
	p.enter()
}

// encode is called by the lane. It reads as late as possible, when its line is written: a slow client gets
// larger batches.
func (p *Pump) encode(dst []byte) []byte {
	p.mu.Lock()
	over := p.endWritten
	if !p.stopped && !over {
		dst = p.write(dst)
	}
	p.mu.Unlock()
	if over {
		p.end(nil)
	}
	return dst
}

// write writes what there is and asks for the next turn. After the end it asks for one last turn, which comes
// when the lane has taken everything. mu is held.
func (p *Pump) write(dst []byte) []byte {
	unwanted := p.o.Sparse && p.r.log.Closed() && time.Now().Before(p.next)
	b, ok := Batch{}, false
	if !unwanted {
		b, ok = p.r.Next(p.o.MaxBytes)
		b.Colors = p.o.Colors
	}
	switch {
	case ok && p.o.Pace > 0:
		dst = p.dialect.Encode(dst, b)
		p.awaitPaced()
	case ok:
		dst = p.lines(dst, b)
		p.await(1)
	case unwanted || p.r.ended():
		dst = p.dialect.End(dst)
		p.endWritten = true
		p.enter()
	default: // memory has released it meanwhile: only the backing has it
		p.await(1)
	}
	return dst
}

// lines appends a notification for each write.
func (p *Pump) lines(dst []byte, b Batch) []byte {
	if p.r.tail || b.Lost {
		return p.dialect.Encode(dst, b)
	}
	for len(b.records) > 0 {
		n := 1
		for n < len(b.records) && b.records[n-1].more {
			n++
		}
		dst = p.dialect.Encode(dst, b.split(n))
	}
	return dst
}
