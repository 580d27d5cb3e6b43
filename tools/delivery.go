package tools

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// delivery is what the client hears of a call through one request. It goes through four steps:
//
//	open     the run is known, and its output is read from its beginning on, or from where another request has left it
//	start    the output is written out, by a pump, until all of it is written
//	begin    the client may hear of the call, as start tells: what comes before, such as a task's handle, has been queued
//	silence  nothing more is written
type delivery struct {
	audience *audience
	caller   *rpc.Caller // nil: nobody
	spelling spelling
	handle   bool  // the request is answered with a task
	from     int64 // position in the log: what comes before was delivered with another request
	o        *ServeOptions

	// Set by open.
	run      *tasks.Run
	ctx      context.Context    // ends when nothing more may be written
	end      context.CancelFunc // ends ctx
	progress *partials.Progress // nil: no token. Used on the writer's goroutine only
	dialect  partials.Dialect   // the pump's
	marked   *marked            // the dialect, with marks; nil: its lines have none
	reader   *partials.Reader   // the pump's
	pump     *partials.Pump     // nil: nothing is written while the tool runs
	streamed func()             // frees the request's id; nil: one response goes out under it
	release  func()             // lets go of what answers the request: what is written of its task goes there, to the end. nil: the answer is all

	// Owned by the goroutine that answers the call.
	started   bool
	elsewhere bool // the result does not answer this request. Set when the pump has stopped

	mu     sync.Mutex // taken on the writer's goroutine, too: nothing may be waited for under it
	begun  rpc.Latch
	silent bool                    // nothing more is written
	told   bool                    // the ending was written, with what the result has beyond the output
	held   []mcp.Task              // the statuses from before begun
	early  func(dst []byte) []byte // encodes the last progress from before begun; nil if there is none
}

// audience is the client of a call. In the stateless era a call may be answered with questions, and come back as another request: what
// it hears then is another delivery, and all else goes on.
//
// In the handshake era a question goes out as elicitation/create, at once and not only when tasks/result is called: some hosts only
// ever call tasks/get. In the stateless era the server writes no requests: who waits for the call's answer, or for its task, finds
// the question there.
type audience struct {
	run     *tasks.Run // set by Begin
	current atomic.Pointer[delivery]
	turn    chan struct{}   // holds an element for each open question, as many as may be
	left    atomic.Bool     // the client was told to come back for the task: it does not wait for the call any more
	far     tasks.FarClient // in a worker, in the place of a caller

	mu        sync.Mutex
	end       rpc.Latch      // set when the task has ended
	questions sync.WaitGroup // those that are open
}

// Begin implements tasks.Client.
func (a *audience) Begin(run *tasks.Run) {
	a.run = run
	a.current.Load().open()
}

// Status implements tasks.Client.
func (a *audience) Status(t mcp.Task) { a.current.Load().status(t) }

// Silence implements tasks.Client.
func (a *audience) Silence() {
	a.current.Load().silence()
	a.withdraw()
	a.current.Load().silence() // the call may have come back meanwhile; one that comes back later finds a.end
}

// report passes on what the tool says of its progress.
func (a *audience) report(done, total float64, message string) {
	if a.far.Progress {
		a.run.TellProgress()
		return
	}
	a.current.Load().report(done, total, message)
}

// caller is who made the newest request of the call: capabilities are each request's own.
func (a *audience) caller() *rpc.Caller { return a.current.Load().caller }

// open begins to read the output, in the way of its spelling.
func (d *delivery) open() {
	d.run = d.audience.run
	if d.spelling == byResult {
		return
	}
	// Not the run's: what the log holds when that ends is written before the end is told.
	d.ctx, d.end = context.WithCancel(context.Background())
	c, log, o := d.caller, d.run.Log(), d.o.Pump
	if len(c.Meta.ProgressToken) > 0 {
		id := ""
		if d.handle {
			id = d.run.ID()
		}
		d.progress = partials.NewProgress(c.Head(), c.Meta.ProgressToken, id, c.Version.ProgressMessage)
	}
	switch d.spelling {
	case bySEP1905:
		d.streamed = c.Stream()
		d.dialect = streaming{partials.NewSEP1905(c.Head(), c.ID(), d.run.ID(), d.run.Segments()), d.streamed}
	case byPR383:
		d.dialect = dressed{partials.NewPR383(d.progress, d.ending), c.Version}
	case bySEP2998:
		d.dialect = partials.NewSEP2998(c.Head(), c.Meta.PartialResultToken)
	case bySEP2679:
		d.dialect = partials.NewSEP2679(c.Head(), d.run.ID(), nil)
	case byProgress:
		d.reader, d.dialect = log.NewTail(), d.progress
	case byStatus:
		d.reader, d.dialect = log.NewTail(), statusDialect(c.Head(), d.run)
		o.Pace, o.Sparse = max(o.Pace, tasks.LinePace), true
	}
	if d.reader == nil {
		d.reader = log.NewReader(d.from)
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
	d.pump = partials.NewPump(d.reader, d.dialect, c, o)
}

// start writes the output out until all of it is written, and gives signs of life meanwhile. It may be called again.
func (d *delivery) start() {
	if d.started {
		return
	}
	d.started = true
	if d.pump == nil {
		d.begin()
		d.run.Delivered()
		return
	}
	delivered := d.run.Delivering()
	early := d.begin()
	if d.progress == nil {
		d.pump.Start(d.ctx, func(error) { delivered() }) // it fails when the task is stopped or nobody is there to read it
		return
	}
	go func() {
		defer delivered()
		if early != nil {
			d.write(early)
		}
		ctx, stop := context.WithCancel(d.ctx)
		d.pump.Start(d.ctx, func(error) { stop() })
		d.beat(ctx)
	}()
}

// beat gives a sign of life when nothing has been said for a while: a silent tool is told apart from a hung one, and hosts that
// wait longer while there is progress do.
func (d *delivery) beat(ctx context.Context) {
	if d.o.Heartbeat <= 0 {
		<-ctx.Done()
		return
	}
	// Looked at twice in a heartbeat, no silence is longer than one.
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

// silence ends the delivery: nothing more is written when it returns. It does not wait for the client.
func (d *delivery) silence() {
	if d.pump == nil {
		return
	}
	d.pump.Stop()
	d.mu.Lock()
	d.silent = true
	d.mu.Unlock()
	d.end()
	if d.streamed != nil {
		d.streamed()
	}
}

// await waits until the client may hear of the call: after the handle, because it does not know the task before it.
func (d *delivery) await(ctx context.Context) error {
	select {
	case <-d.begun.Done():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// begin lets the client hear of the call from now on. It returns what encodes the last progress from before, nil if there is none.
func (d *delivery) begin() (early func(dst []byte) []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begun.Set()
	for _, t := range d.held {
		d.notify(t)
	}
	early = d.early
	d.held, d.early = nil, nil
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
	notify := c.TryNotify // a task can ask, and so change, without end
	if t.Status.Terminal() {
		if d.marked != nil {
			c = c.Marked(d.marked.last())
		}
		notify = c.Notify
	}
	_ = notify("notifications/tasks/status", t) // fails only when nobody is there to read it
}

// mark marks the answer of a request that gets a handle, before anything else is written.
func (d *delivery) mark() string {
	if d.marked == nil {
		return ""
	}
	return d.marked.now()
}

// report passes on what the tool says of its progress. It waits for its turn on the output, as long as the call
// lasts. What is said before the client may hear of the call is kept, the last of it: a tool that waited there would
// never be done in time for an immediate result.
func (d *delivery) report(done, total float64, message string) {
	if d.progress == nil {
		return
	}
	encode := func(dst []byte) []byte { return d.progress.Report(dst, done, total, message) }
	d.mu.Lock()
	begun := d.begun.IsSet()
	if !begun {
		d.early = encode
	}
	d.mu.Unlock()
	if begun {
		d.write(encode)
	}
}

// write writes progress, unless the delivery has ended.
func (d *delivery) write(encode func(dst []byte) []byte) {
	_ = d.caller.Write(d.ctx, func(dst []byte) []byte {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.silent { // ended while the lane was waited for
			return dst
		}
		begin := len(dst)
		dst = encode(dst)
		if d.marked != nil {
			dst = d.marked.insert(dst, begin, d.marked.now)
		}
		return dst
	})
}

// ending is what the result has beyond the output, nothing if the result goes another way. The pump asks for it at
// the end of the log, which is closed only when the ending is known.
func (d *delivery) ending() partials.Ending {
	if d.elsewhere {
		return partials.Ending{}
	}
	d.mu.Lock()
	d.told = true
	d.mu.Unlock()
	return dressedEnding(d.caller.Version, d.run.Segments())
}

// answer is that of a plain call whose run has ended: what the client's version knows of the result, without what it was sent already,
// "content: []" (PR #383, after LSP's partial results: the final result is empty then).
func (d *delivery) answer() (any, error) {
	outcome := d.run.Task().Outcome
	if outcome.Err != nil {
		return nil, outcome.Err
	}
	dressed := dressResult(d.caller.Version, outcome.Result)
	if d.spelling != byPR383 || len(outcome.Result.Content) == 0 { // then what dressed has is structured content as text, which was not sent
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
