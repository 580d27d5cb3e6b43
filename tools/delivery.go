package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"runnel/internal/signal"
	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/run"
)

// delivery sends a client what happens to a call, through one request. It goes through four steps:
//
//	open     the run is known, and its output is read from the beginning, or from where another request has stopped
//	start    a goroutine writes the output until all of it is written
//	begin    the client may be sent anything about the call: what must come before, such as a task's handle, has been queued
//	silence  nothing more is written
type delivery struct {
	audience *audience
	caller   *rpc.Caller     // nil: nothing is sent
	params   json.RawMessage // of the request that made the call; nil: it was made in another way
	spelling spelling
	handle   bool  // the request is answered with a task
	from     int64 // position in the log up to which another request has delivered
	o        *ServeOptions

	// Set by open.
	run      *run.Run
	ctx      context.Context    // ends when nothing more may be written
	end      context.CancelFunc // ends ctx
	progress *partials.Progress // nil: no token. Only used on the writer's goroutine
	dialect  partials.Dialect   // the output's
	marked   *marked            // the dialect, if its lines have marks; otherwise nil
	reader   *partials.Reader   // the output's; nil if only its last line is shown
	output   func() error       // writes the output; nil: nothing is written while the tool runs
	gate     partials.Gate      // all output and progress passes it, until silence closes it
	streamed func()             // frees the request's id, under which several responses go out; nil: one does
	release  func()             // closes the stream that answers the request, after all that is written about its task; nil: the answer closes it

	// Owned by the goroutine that answers the call.
	started   bool
	elsewhere bool // the result does not answer this request. Set after silence

	mu     sync.Mutex // also taken on the writer's goroutine, so nothing may wait under it
	begun  signal.Latch
	told   bool                    // the ending was written, including what the result has beyond the output
	held   []mcp.Task              // statuses from before begun
	early  func(dst []byte) []byte // encodes the last progress from before begun; nil if there is none
	passed []json.RawMessage       // another server's progress from before begun
}

// open begins to read the output, as its spelling requires.
func (d *delivery) open() {
	d.run = d.audience.run
	if d.spelling == byResult {
		return
	}
	// This is not the run's context: what is in the log when that ends is still written before the end is
	// announced.
	d.ctx, d.end = context.WithCancel(context.Background())
	c := d.caller
	d.gate.Lane = c
	if len(c.Meta.ProgressToken) > 0 {
		id := ""
		if d.handle {
			id = d.run.ID()
		}
		d.progress = partials.NewProgress(c.Head(), c.Meta.ProgressToken, id, c.Version.ProgressMessage)
	}
	if d.progress != nil && d.relays() {
		d.progress.Relay()
	}
	switch d.spelling {
	case bySEP1905:
		d.streamed = c.Stream()
		d.dialect = streaming{partials.NewSEP1905(c.Head(), c.ID(), d.run.ID(), d.run.Segments()), d.streamed}
	case byPR383:
		if d.dialect = partials.NewPR383(d.progress, d.ending); !d.audience.relays {
			d.dialect = dressed{d.dialect, c.Version}
		}
	case bySEP2998:
		d.dialect = partials.NewSEP2998(c.Head(), c.Meta.PartialResultToken)
	case bySEP2679:
		d.dialect = partials.NewSEP2679(c.Head(), d.run.ID(), nil)
	case byProgress:
		d.dialect = d.progress
	case byStatus:
		d.dialect = statusDialect(c.Head(), d.run)
	}
	if d.handle && d.spelling != byStatus {
		o := origin{Task: d.run.ID(), Spelling: d.spelling, Token: c.Meta.ProgressToken}
		if d.spelling == bySEP1905 {
			o.Request = c.ID()
		}
		if d.marked = newMarked(c, d.dialect, o, d.from); d.marked != nil {
			d.dialect = d.marked
		}
		d.release = c.Hold()
	}
	log, o := d.run.Log(), d.o.Deliver
	switch d.spelling {
	case byProgress, byStatus:
		late := d.spelling == byStatus
		if late {
			o.Pace = max(o.Pace, run.LinePace)
		}
		d.output = func() error { return partials.DeliverLastLine(d.ctx, log, d.dialect, &d.gate, o.Pace, late) }
	default:
		d.reader = log.NewReader(d.from)
		d.output = func() error { return partials.Deliver(d.ctx, d.reader, d.dialect, &d.gate, o) }
	}
}

// start writes the output until all of it is written, with signs of life in between. It may be called again.
func (d *delivery) start() {
	if d.started {
		return
	}
	d.started = true
	early := d.begin()
	if d.output == nil {
		d.run.Delivered()
		return
	}
	d.run.Deliver(func(context.Context) {
		if early != nil {
			d.write(early)
		}
		ctx, stop := context.WithCancel(d.ctx)
		var beating sync.WaitGroup
		if d.progress != nil && d.o.Heartbeat > 0 {
			beating.Go(func() { d.beat(ctx) })
		}
		_ = d.output() // it fails when the task is stopped or the reader has closed
		stop()
		beating.Wait()
	})
}

// beat sends a sign of life after some silence, so that a silent tool can be told from a hung one, and for
// hosts that wait longer while there is progress.
func (d *delivery) beat(ctx context.Context) {
	// With two looks in each heartbeat, no silence is longer than one.
	t := time.NewTicker(d.o.Heartbeat / 2)
	defer t.Stop()
	began, seen := time.Now(), -1 // -1: silent for less than half a heartbeat
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		d.write(func(dst []byte) []byte {
			if n := d.progress.Written(); n != seen {
				seen = n
				return dst
			}
			seen = -1
			return d.progress.Beat(dst, fmt.Appendf(nil, "running for %v", time.Since(began).Round(time.Second)))
		})
	}
}

// silence ends the delivery: after it returns, nothing more is written. It does not wait for the client.
func (d *delivery) silence() {
	if d.output == nil {
		return
	}
	d.gate.Close()
	d.end()
	if d.reader != nil {
		d.reader.Close() // Append no longer waits for it
	}
	if d.streamed != nil {
		d.streamed()
	}
}

// await waits for begin: before the handle, the client does not know the task.
func (d *delivery) await(ctx context.Context) error {
	select {
	case <-d.begun.Done():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// begin sends the statuses that were held back, and allows everything else. It returns the function that
// encodes the last progress from before, nil if there is none.
func (d *delivery) begin() (early func(dst []byte) []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begun.Set()
	for _, t := range d.held {
		d.notify(t)
	}
	early = d.early
	for _, params := range d.passed {
		_ = d.caller.TryNotify("notifications/progress", params) // fails only if the reader has closed
	}
	d.held = nil
	d.early = nil
	d.passed = nil
	return early
}

// status sends the client a change of the task's status, after the handle.
func (d *delivery) status(t mcp.Task) {
	if !d.handle {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.begun.IsSet() {
		d.notify(t)
	} else {
		d.held = append(d.held, t)
	}
	if t.Status.Terminal() && d.release != nil {
		d.release()
	}
}

func (d *delivery) notify(t mcp.Task) {
	c := d.caller
	notify := c.TryNotify // a task can ask again and again, and each question changes its status
	if t.Status.Terminal() {
		if d.marked != nil {
			c = c.Marked(d.marked.last())
		}
		notify = c.Notify
	}
	_ = notify("notifications/tasks/status", t) // fails only if the reader has closed
}

// mark returns the mark for the answer to a request that gets a handle, before anything else is written.
func (d *delivery) mark() string {
	if d.marked == nil {
		return ""
	}
	return d.marked.now()
}

// relays reports whether progress is another server's and passes as it is. PR #383 numbers it itself.
func (d *delivery) relays() bool { return d.audience.relays && d.spelling != byPR383 }

// maxPassed bounds the progress of another server that is kept before begin.
const maxPassed = 256

// report passes on the progress that the tool reports. It waits for its turn on the output, as long as the
// call lasts. Of the progress from before begin only the last is kept: a tool that had to wait there would
// never finish in time for an immediate result. params are those of another server's notification.
func (d *delivery) report(p tasks.Progress, params json.RawMessage) {
	if d.progress == nil {
		return
	}
	pass := params != nil && d.relays()
	encode := func(dst []byte) []byte { return d.progress.Report(dst, p.Done, p.Total, p.Message) }
	if pass {
		encode = func(dst []byte) []byte { return d.progress.Pass(dst, params, p.Done, p.Total, p.Message) }
	}
	d.mu.Lock()
	begun := d.begun.IsSet()
	switch {
	case begun:
	case pass && len(d.passed) < maxPassed:
		d.passed = append(d.passed, rawjson.WithMember(params, "progressToken", d.caller.Meta.ProgressToken))
		d.early = func(dst []byte) []byte { d.progress.Passed(p.Done, p.Total, p.Message); return dst }
	case !pass:
		d.early = encode
	}
	d.mu.Unlock()
	if begun {
		d.write(encode)
	}
}

// write writes progress, unless the delivery has ended.
func (d *delivery) write(encode func(dst []byte) []byte) {
	_ = d.gate.Write(d.ctx, func(dst []byte) []byte {
		begin := len(dst)
		dst = encode(dst)
		if d.marked != nil {
			dst = d.marked.insert(dst, begin, d.marked.now)
		}
		return dst
	})
}

// ending returns what the result has beyond the output, nothing if the result is sent in another way. It is
// called at the end of the log, which is closed only once the ending is known.
func (d *delivery) ending() partials.Ending {
	if d.elsewhere {
		return partials.Ending{}
	}
	d.mu.Lock()
	d.told = true
	d.mu.Unlock()
	if d.audience.relays {
		if ending := d.run.Segments().Ending(); ending != nil {
			return *ending
		}
	}
	return dressedEnding(d.caller.Version, d.run.Segments())
}

// answer returns the answer to a plain call whose run has ended: the result as the client's version knows it,
// without what was already sent, "content: []" (PR #383, after LSP's partial results: the final result is
// empty then).
func (d *delivery) answer() (any, error) {
	outcome := d.run.Task().Outcome
	if outcome.Err != nil {
		return nil, outcome.Err
	}
	dressed := d.audience.dress(d.caller.Version, outcome.Result)
	if d.spelling != byPR383 || len(outcome.Result.Content) == 0 { // with no content, dressed has the structured content as text, which was not sent
		return dressed, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.told { // the call was cut off
		return dressed, nil
	}
	empty := *dressed
	empty.Content = []mcp.ContentBlock{}
	return &empty, nil
}
