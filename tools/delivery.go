package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// delivery is how one call's output reaches the client that made the call.
type delivery struct {
	caller    *rpc.Caller
	lane      *rpc.Lane
	token     json.RawMessage // nil: the client did not ask for progress
	handle    bool
	spelling  spelling
	o         partials.PumpOptions
	heartbeat time.Duration
	from      int64                     // position in the log: what comes before was delivered with another request
	current   *atomic.Pointer[delivery] // the delivery of the run, which another one takes over when the client comes back with another request

	mu    sync.Mutex
	begun rpc.Event  // by begin: what comes before on the wire, such as a handle, stands in the output
	held  []mcp.Task // statuses from before that
	early func()     // tells the progress from before that; nil if there is none

	// Set by prepare.
	run      *tasks.Run
	asking   asking
	ctx      rpc.Context        // ends when nothing more may be written
	progress *partials.Progress // nil: no token. Used under the lane's lock only
	dialect  partials.Dialect   // of the pump
	reader   *partials.Reader   // of the pump
	pump     *partials.Pump     // nil: nothing is written while the tool runs
	streamed func()             // frees the request's id; nil: one response goes out under it

	started   bool // of the goroutine that answers the call
	elsewhere bool // the call was handed over. Set when the pump has stopped

	speech sync.Mutex // held while write encodes; taken under the lane's lock, so nothing may wait for the lane under it
	silent bool       // nothing more is written
}

// spelling is which dialect carries the output.
type spelling uint8

const (
	bySEP1905  spelling = iota + 1 // pushed: further responses with the call's id
	byPR383                        // partial results in progress notifications
	bySEP2998                      // notifications/tools/partial_result
	bySEP2679                      // notifications/tasks/partial
	byProgress                     // the last line of output, in progress notifications
	byStatus                       // the last line of output, in status notifications
	byResult                       // in the result only
)

// chooseSpelling decides once what the client sees of a call while it runs, from what its request and its
// capabilities ask for. The first row that fits wins:
//
//	SEP-1905 streaming is the mode, and the client takes several responses   SEP-1905
//	partialResults: true beside a progress token                            PR #383
//	a partialResultToken, and the client declared partialResults            SEP-2998 (stateless era)
//	a task, and the client declared tasks.streaming.partial                  SEP-2679
//	a progress token                                                        progress, with the last line
//	a task                                                                  status, with the last line
//	else                                                                    nothing
//
// What a tool reports by Output.Progress goes to a client that gave a token in every case.
func chooseSpelling(c *rpc.Caller, handle bool, mode mcp.ResponseMode) spelling {
	token := len(c.Meta.ProgressToken) > 0
	switch {
	case mode == mcp.ModeStreaming && c.Capabilities.StreamsResponses():
		return bySEP1905
	case token && bool(c.Meta.PartialResults) && mode != mcp.ModeStreaming:
		return byPR383
	case c.Version.Stateless && len(c.Meta.PartialResultToken) > 0 && c.Capabilities.PartialResults != nil:
		return bySEP2998
	case handle && c.Capabilities.StreamsPartials() && mode != mcp.ModeStreaming:
		return bySEP2679
	case token:
		return byProgress
	case handle:
		return byStatus
	default:
		return byResult
	}
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

// statusPace is the least time between two status notifications that only show the last line of output, the handle
// counted as one and the terminal one not: a task that is over sooner shows none.
const statusPace = time.Second

// prepare is called with the run before it starts, so that its output is read from the beginning.
func (d *delivery) prepare(run *tasks.Run) {
	c := d.caller
	d.run = run
	d.ctx.Parent = run.Context()
	if len(d.token) > 0 {
		id := ""
		if d.handle {
			id = run.ID()
		}
		d.progress = partials.NewProgress(c.Head(), d.token, id, c.Version.ProgressMessage)
	}
	log := run.Log()
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
		d.o.Pace, d.o.Sparse = max(d.o.Pace, statusPace), true
	}
	if d.dialect != nil {
		d.pump = partials.NewPump(d.reader, d.dialect, d.lane, d.o)
	}
	d.asking.d, d.asking.run = d, run
	d.current.Store(d)
	run.SilenceBy(func() {
		d.silence()
		d.asking.withdraw()
	})
}

// start writes the output out until all of it is written, and gives signs of life meanwhile. It may be called again.
func (d *delivery) start() {
	if d.started {
		return
	}
	d.started = true
	if d.progress != nil {
		d.run.Deliver(func(context.Context) { // what may have to wait for the client: progress, and signs of life
			d.begin()
			defer d.beat()()
			if d.pump != nil {
				_ = d.pump.Run(&d.ctx)
			}
		})
		return
	}
	d.run.DeliverBy(func(done func()) {
		d.begin()
		if d.pump == nil {
			done()
			return
		}
		d.pump.Start(&d.ctx, func(error) { done() }) // fails when the task is stopped or nobody is there to read it
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

// streaming is a dialect that tells before its last line that it is the last one.
type streaming struct {
	partials.Dialect
	ends func()
}

func (s streaming) End(dst []byte) []byte {
	s.ends()
	return s.Dialect.End(dst)
}

// write writes progress, unless the delivery has ended.
func (d *delivery) write(encode func(dst []byte) []byte) {
	_ = d.lane.Write(&d.ctx, func(dst []byte) []byte {
		d.speech.Lock()
		defer d.speech.Unlock()
		if d.silent { // ended while the lane was waited for
			return dst
		}
		return encode(dst)
	})
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

// report passes on what the tool says of its progress. It waits for its turn on the output, as long as the call
// lasts. What is said before the client may hear of the call is kept, the last of it: a tool that waited there would
// never be done in time for an immediate result.
func (d *delivery) report(done, total float64, message string) {
	if d.progress == nil {
		return
	}
	d.mu.Lock()
	if !d.begun.Has() {
		d.early = func() { d.tellProgress(done, total, message) }
		d.mu.Unlock()
		return
	}
	d.mu.Unlock()
	d.tellProgress(done, total, message)
}

func (d *delivery) tellProgress(done, total float64, message string) {
	d.write(func(dst []byte) []byte { return d.progress.Report(dst, done, total, message) })
}

// beat starts the heartbeat: a silent tool is told apart from a hung one, and hosts
// that wait longer while there is progress do. The function it returns ends it.
func (d *delivery) beat() (end func()) {
	if d.heartbeat <= 0 {
		return func() {}
	}
	ended, stop := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		// Looked at twice in a heartbeat, no silence is longer than one.
		t := time.NewTicker(d.heartbeat / 2)
		defer t.Stop()
		began, seen := time.Now(), -1 // -1: silent for less than half a heartbeat
		for {
			select {
			case <-t.C:
			case <-stop:
				return
			case <-d.ctx.Done():
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
	}()
	return func() { close(stop); <-ended }
}

// begin lets the client hear of the call from now on.
func (d *delivery) begin() {
	d.mu.Lock()
	d.begun.Happen()
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
	if d.begun.Has() {
		d.notify(t)
	} else {
		d.held = append(d.held, t)
	}
}

func (d *delivery) notify(t mcp.Task) {
	notify := d.caller.NotifyInPassing // a task can ask, and so change, without end
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
		e.Rest = append(e.Rest, dressContent(d.caller.Version, item))
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

// statusDialect shows the last line of output as the statusMessage of a working task, which is all that some
// hosts show. It goes with a tail reader.
type statusDialect struct {
	head []byte
	run  *tasks.Run
}

func (d *statusDialect) Encode(dst []byte, b partials.Batch) []byte {
	t := d.run.Status(partials.LastLine(b))
	if t.Status != mcp.TaskWorking || t.StatusMessage == "" {
		return dst
	}
	return fmt.Appendf(dst, "%s,\"method\":\"notifications/tasks/status\",\"params\":%s}\n", d.head, encode(t))
}

func (d *statusDialect) End(dst []byte) []byte { return dst }
