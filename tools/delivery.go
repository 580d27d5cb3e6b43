package tools

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// delivery is how one call's output reaches the client that made the call. It goes through four steps:
//
//	prepare  the run is known, and its output is read from its beginning on, or from where another request has left it
//	start    the output is written out, by a pump, until all of it is written
//	begin    the client may hear of the call, as start tells: what comes before, such as a task's handle, has been queued
//	silence  nothing more is written
type delivery struct {
	caller    *rpc.Caller
	lane      *rpc.Lane
	token     json.RawMessage // nil: the client did not ask for progress
	handle    bool
	spelling  spelling
	o         partials.PumpOptions
	heartbeat time.Duration
	from      int64                     // position in the log: what comes before was delivered with another request
	current   *atomic.Pointer[delivery] // the run's delivery of now: another one when the client has answered questions with another request

	mu    sync.Mutex // held while a status is queued, so that they come in order
	begun rpc.Latch
	held  []mcp.Task // the statuses from before that
	early func()     // tells the last progress from before that; nil if there is none

	// Set by prepare.
	run      *tasks.Run
	asking   asking
	ctx      rpc.Context        // ends when nothing more may be written
	progress *partials.Progress // nil: no token. Used under the lane's lock only
	dialect  partials.Dialect   // of the pump
	reader   *partials.Reader   // of the pump
	pump     *partials.Pump     // nil: nothing is written while the tool runs
	streamed func()             // frees the request's id; nil: one response goes out under it

	// Of the goroutine that answers the call.
	started   bool
	elsewhere bool // the result does not answer this request. Set when the pump has stopped

	speech sync.Mutex // held while write encodes; taken under the lane's lock, so nothing may wait for the lane under it
	silent bool       // nothing more is written
}

func (s *service) deliver(c *rpc.Caller, handle bool, mode mcp.ResponseMode) *delivery {
	return &delivery{
		caller:    c,
		lane:      c.Lane(),
		token:     c.Meta.ProgressToken,
		handle:    handle,
		spelling:  chooseSpelling(c, handle, mode),
		o:         s.o.Pump,
		heartbeat: s.o.Heartbeat,
		current:   &atomic.Pointer[delivery]{},
	}
}

// deliverResult is the delivery of a call whose client is told nothing until it asks.
func deliverResult(c *rpc.Caller) *delivery {
	return &delivery{caller: c, spelling: byResult, current: &atomic.Pointer[delivery]{}}
}

// prepare is called with the run before it starts, so that its output is read from the beginning.
func (d *delivery) prepare(run *tasks.Run) {
	c := d.caller
	d.run = run
	d.ctx.Parent = context.Background() // and not the run's: what the log holds when that ends is written before the end is told
	if len(d.token) > 0 {
		id := ""
		if d.handle {
			id = run.ID()
		}
		d.progress = partials.NewProgress(c.Head(), d.token, id, c.Version.ProgressMessage)
	}
	d.openPump(run)
	d.asking.d, d.asking.run = d, run
	d.current.Store(d)
	run.SilenceBy(func() {
		d.silence()
		d.asking.withdraw()
	})
}

// openPump begins to read the output, in the way of its spelling.
func (d *delivery) openPump(run *tasks.Run) {
	c, log := d.caller, run.Log()
	switch d.spelling {
	case bySEP1905:
		d.streamed = c.Stream()
		d.reader, d.dialect = log.NewReader(d.from), streaming{partials.NewSEP1905(c.Head(), c.ID(), run.ID(), run.Segments()), d.streamed}
	case byPR383:
		d.reader, d.dialect = log.NewReader(d.from), dressed{partials.NewPR383(d.progress, d.ending), c.Version}
	case bySEP2998:
		d.reader, d.dialect = log.NewReader(d.from), partials.NewSEP2998(c.Head(), c.Meta.PartialResultToken)
	case bySEP2679:
		d.reader, d.dialect = log.NewReader(d.from), partials.NewSEP2679(c.Head(), run.ID())
	case byProgress:
		d.reader, d.dialect = log.NewTail(), d.progress
	case byStatus:
		d.reader, d.dialect = log.NewTail(), &statusDialect{head: c.Head(), run: run}
		d.o.Pace, d.o.Sparse = max(d.o.Pace, tasks.LinePace), true
	}
	if d.dialect != nil {
		d.pump = partials.NewPump(d.reader, d.dialect, d.lane, d.o)
	}
}

// start writes the output out until all of it is written, and gives signs of life meanwhile. It may be called again.
func (d *delivery) start() {
	if d.started {
		return
	}
	d.started = true
	d.run.Deliver(func(context.Context) {
		d.begin()
		if d.progress != nil {
			defer d.beat()()
		}
		if d.pump != nil {
			_ = d.pump.Run(&d.ctx) // fails when the task is stopped or nobody is there to read it
		}
	})
}

// silence ends the delivery: nothing more is written when it returns. It does not wait for the client.
func (d *delivery) silence() {
	if d.pump != nil {
		d.pump.Stop()
	}
	d.speech.Lock()
	d.silent = true
	d.speech.Unlock()
	d.ctx.Cancel(nil)
	if d.streamed != nil {
		d.streamed()
	}
}

// await waits until the client may hear of the call: behind the handle, because it does not know the task before it.
func (d *delivery) await(ctx context.Context) error {
	select {
	case <-d.begun.Done():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// begin lets the client hear of the call from now on.
func (d *delivery) begin() {
	d.mu.Lock()
	d.begun.Set()
	for _, t := range d.held {
		d.notify(t)
	}
	early := d.early
	d.held, d.early = nil, nil
	d.mu.Unlock()
	if early != nil {
		early()
	}
}

// status tells the client of a change of the task's status, behind the handle.
func (d *delivery) status(t mcp.Task) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.begun.IsSet() {
		d.notify(t)
	} else {
		d.held = append(d.held, t)
	}
}

func (d *delivery) notify(t mcp.Task) {
	notify := d.caller.TryNotify // a task can ask, and so change, without end
	if t.Status.Terminal() {
		notify = d.caller.Notify
	}
	_ = notify("notifications/tasks/status", t) // fails only when nobody is there to read it
}

// ending is what the result has beyond the output, nothing if the result goes another way. The pump asks for it at
// the end of the log, which is closed only when the ending is known.
func (d *delivery) ending() partials.Ending {
	e := partials.Ending{}
	if d.elsewhere {
		return e
	}
	for _, item := range d.run.Ending().Rest {
		e.Rest = append(e.Rest, DressContent(d.caller.Version, item))
	}
	return e
}

// answer is that of a plain call whose run has ended.
func (d *delivery) answer() (any, error) {
	outcome := d.run.Task().Outcome
	if outcome.Err != nil {
		return nil, outcome.Err
	}
	return d.dress(outcome.Result), nil
}

// dress makes of a plain call's result what the client's version knows, without what the client was sent already: "content: []"
// (PR #383, after LSP's partial results: the final result is empty then).
func (d *delivery) dress(result *mcp.CallToolResult) *mcp.CallToolResult {
	dressed := dressResult(d.caller.Version, result)
	if d.spelling != byPR383 || len(result.Content) == 0 { // then what dressed has is structured content as text, which was not sent
		return dressed
	}
	empty := *dressed
	empty.Content = []mcp.ContentBlock{}
	return &empty
}
