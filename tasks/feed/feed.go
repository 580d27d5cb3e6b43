package feed

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

// Feed sends a client what happens to a call, through one request. It goes through three steps:
//
//	Open     the run is known; its output is read from the beginning, or from where another request has stopped
//	Start    what must come before, such as a handle, has been queued; a goroutine writes all of the output
//	Silence  no more output or progress is written; statuses still come
//
// A call that was answered with a task whose client polls goes from Open to Silence and then ShowStatuses,
// which sends nothing: such a client asks for the status. Package tools has a Feed in each delivery, one for
// each request of a call. Open, Start, Mark, First, Pos and EndPartials belong to the goroutine that answers
// the call.
type Feed struct {
	Caller   *rpc.Caller // nil: nothing is sent
	Spelling Spelling
	Handle   bool  // the request is answered with a task
	From     int64 // position in the log up to which another request has delivered
	// The call is another server's, whose results and progress pass as they are. Set before Open.
	Relays  bool
	Options Options

	// Set by Open.
	Run      *run.Run
	origin   origin
	ctx      context.Context    // ends when nothing more may be written
	end      context.CancelFunc // ends ctx
	progress *partials.Progress // nil: no token. Only used on the writer's goroutine
	dialect  partials.Dialect   // the output's
	marked   *marked            // the dialect, if its lines have marks (mark.go); otherwise nil
	reader   *partials.Reader   // the output's; nil if only its last line is shown
	output   func() error       // writes the output; nil: nothing is written while the tool runs
	gate     partials.Gate      // all output and progress passes it, until Silence closes it
	// Frees the request's id, if several responses go out under it; otherwise nil.
	freeID      func()
	closeStream func() // closes the stream of the request after the task's end; nil: the answer does

	started   bool
	elsewhere bool // the result does not answer this request

	mu       sync.Mutex // also taken on the writer's goroutine, so nothing may wait under it
	released signal.Latch
	toldEnd  bool                    // the end was written, with what the result has beyond the output
	held     []mcp.Task              // statuses from before release
	early    func(dst []byte) []byte // encodes the last progress from before release; nil if there is none
	passed   []json.RawMessage       // another server's progress from before release
}

// Options say how output is delivered.
type Options struct {
	Deliver   partials.DeliverOptions
	Heartbeat time.Duration // a sign of life after each silence of this length; 0 = none
}

// Open begins to read the output, as its spelling requires.
func (f *Feed) Open(r *run.Run) {
	f.Run = r
	if f.Spelling == ByResult {
		return
	}
	// This is not the run's context: what is in the log when that ends is still written before the end is
	// announced.
	f.ctx, f.end = context.WithCancel(context.Background())
	c := f.Caller
	f.gate.Lane = c
	f.origin = origin{Spelling: f.Spelling, Token: c.Meta.ProgressToken, Relays: f.Relays}
	if f.Handle {
		f.origin.Task = r.ID()
	}
	f.progress = f.origin.progress(c)
	switch f.Spelling {
	case ByStatus:
		f.dialect = statusDialect(c.Head(), r)
	case SEP1905:
		f.origin.Request = c.ID()
		f.freeID = c.Stream()
		f.dialect = streaming{f.origin.dialect(c, f.progress, r.Segments(), f.ending), f.freeID}
	default:
		f.dialect = f.origin.dialect(c, f.progress, r.Segments(), f.ending)
	}
	if f.Handle && f.Spelling != ByStatus {
		if f.marked = newMarked(c, f.dialect, f.origin, f.From); f.marked != nil {
			f.dialect = f.marked
		}
		f.closeStream = c.Hold()
	}
	log, o := r.Log(), f.Options.Deliver
	switch f.Spelling {
	case ByProgress, ByStatus:
		late := f.Spelling == ByStatus
		if late {
			o.Pace = max(o.Pace, run.LinePace)
		}
		f.output = func() error {
			return partials.DeliverLastLine(f.ctx, log, f.dialect, &f.gate,
				o.Pace, late)
		}
	default:
		f.reader = log.NewReader(f.From)
		f.output = func() error { return partials.Deliver(f.ctx, f.reader, f.dialect, &f.gate, o) }
	}
}

// Writes reports whether anything is written while the tool runs.
func (f *Feed) Writes() bool { return f.output != nil }

// Started reports whether Start was called.
func (f *Feed) Started() bool { return f.started }

// Pos returns the position in the log up to which output was written, 0 where only its last line is shown.
func (f *Feed) Pos() int64 {
	if f.reader == nil {
		return 0
	}
	return f.reader.Pos()
}

// Start writes the output until all of it is written, with signs of life in between. It may be called again.
func (f *Feed) Start() {
	if f.started {
		return
	}
	f.started = true
	if f.output == nil { // nothing was held back
		f.released.Set()
		f.Run.Delivered()
		return
	}
	early := f.release()
	f.Run.Deliver(func(context.Context) {
		if early != nil {
			f.write(early)
		}
		ctx, stop := context.WithCancel(f.ctx)
		var beating sync.WaitGroup
		if f.progress != nil && f.Options.Heartbeat > 0 {
			beating.Go(func() { f.sendHeartbeats(ctx) })
		}
		_ = f.output() // it fails when the task is stopped or the client has closed
		stop()
		beating.Wait()
	})
}

// sendHeartbeats sends a sign of life after some silence, so that a silent tool can be told from a hung one,
// and for hosts that wait longer while there is progress.
func (f *Feed) sendHeartbeats(ctx context.Context) {
	// With two looks in each heartbeat, no silence is longer than one.
	t := time.NewTicker(f.Options.Heartbeat / 2)
	defer t.Stop()
	began, seen := time.Now(), -1 // -1: silent for less than half a heartbeat
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		f.write(func(dst []byte) []byte {
			if n := f.progress.Written(); n != seen {
				seen = n
				return dst
			}
			seen = -1
			return f.progress.Heartbeat(dst,
				fmt.Appendf(nil, "running for %v", time.Since(began).Round(time.Second)))
		})
	}
}

// Silence ends the output: after it returns, no more output or progress is written. It does not wait for the
// client.
func (f *Feed) Silence() {
	if f.output == nil {
		return
	}
	f.gate.Close()
	f.end()
	if f.reader != nil {
		f.reader.Close() // Append no longer waits for it
	}
	if f.freeID != nil {
		f.freeID()
	}
}

// Await waits for release: before the handle, the client does not know the task.
func (f *Feed) Await(ctx context.Context) error {
	select {
	case <-f.released.Done():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ShowStatuses sends the statuses that were held back, if the feed has a handle, and lets go what waits for
// release. Start does that, too; a feed that is silent does not start.
func (f *Feed) ShowStatuses() { f.release() }

// release is ShowStatuses, and returns the function that encodes the last progress from before; nil if there
// is none.
func (f *Feed) release() (early func(dst []byte) []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range f.held {
		f.notify(t)
	}
	early = f.early
	for _, params := range f.passed {
		_ = f.Caller.TryNotify("notifications/progress", params) // fails only if the client has closed
	}
	f.held = nil
	f.early = nil
	f.passed = nil
	f.released.Set() // only now: a question that waits for it comes after its status
	return early
}

// Status sends the client a change of the task's status, after the handle.
func (f *Feed) Status(t mcp.Task) {
	if !f.Handle {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.released.IsSet() {
		f.notify(t)
	} else {
		f.held = append(f.held, t)
	}
	if t.Status.Terminal() && f.closeStream != nil {
		f.closeStream()
	}
}

func (f *Feed) notify(t mcp.Task) {
	c := f.Caller
	notify := c.TryNotify // a task can ask again and again, and each question changes its status
	if t.Status.Terminal() {
		if f.marked != nil {
			c = c.Marked(f.marked.last())
		}
		notify = c.Notify
	}
	_ = notify("notifications/tasks/status", t) // fails only if the client has closed
}

// Mark returns the mark for the answer to a request that gets a handle, before anything else is written.
func (f *Feed) Mark() string {
	if f.marked == nil {
		return ""
	}
	return f.marked.now()
}

// First returns the mark for the first of several responses to the request (SEP-1905). complete: it is also
// the last, and frees the request's id.
func (f *Feed) First(complete bool) (mark string) {
	if !complete {
		return f.Mark()
	}
	if f.freeID != nil {
		f.freeID()
	}
	if f.marked == nil {
		return ""
	}
	return f.marked.mark(f.marked.Count(), 1) // as if one line after the end of the output were written
}

// maxPassed bounds the progress of another server that is kept before release.
const maxPassed = 256

// Report passes on the progress that the tool reports. It waits for its turn on the output, as long as the
// call lasts. Of the tool's own progress from before release only the last is kept: a tool that had to wait
// there would never finish in time for an immediate result. Of another server's, the first maxPassed are
// kept. params are those of another server's notification, which keeps its place among that server's other
// messages: only a handle has to come before it.
func (f *Feed) Report(p tasks.Progress, params json.RawMessage) {
	if f.progress == nil {
		return
	}
	pass := params != nil && f.origin.relaysProgress()
	encode := func(dst []byte) []byte { return f.progress.Report(dst, p.Done, p.Total, p.Message) }
	if pass {
		encode = func(dst []byte) []byte { return f.progress.Pass(dst, params, p.Done, p.Total, p.Message) }
	}
	f.mu.Lock()
	begun := f.released.IsSet() || pass && !f.Handle
	switch {
	case begun:
	case pass && len(f.passed) < maxPassed:
		f.passed = append(f.passed, rawjson.WithMember(params, "progressToken", f.Caller.Meta.ProgressToken))
		f.early = func(dst []byte) []byte { f.progress.Passed(p.Done, p.Total, p.Message); return dst }
	case !pass:
		f.early = encode
	}
	f.mu.Unlock()
	if begun {
		f.write(encode)
	}
}

// write writes progress, unless the feed has ended.
func (f *Feed) write(encode func(dst []byte) []byte) {
	_ = f.gate.Write(f.ctx, func(dst []byte) []byte {
		begin := len(dst)
		dst = encode(dst)
		if f.marked != nil {
			dst = f.marked.insert(dst, begin, f.marked.now)
		}
		return dst
	})
}

// ending returns what the result has beyond the output, nothing if the result is sent in another way. It is
// called at the end of the log, which is closed only once the ending is known.
func (f *Feed) ending() partials.Ending {
	if f.elsewhere {
		return partials.Ending{}
	}
	f.mu.Lock()
	f.toldEnd = true
	f.mu.Unlock()
	return f.origin.ending(f.Caller.Version, f.Run.Segments())
}

// Told reports whether the end of the output was written with what the result has beyond it (PR #383). A call
// that was cut off tells nothing.
func (f *Feed) Told() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.toldEnd
}

// EndPartials says that no more partial results come through this request (PR #383, SEP-2998), although the
// call goes on. What the result has beyond the output is left to whatever answers later. It is called after
// Silence, so the dialect's last line goes out as a notification of its own.
func (f *Feed) EndPartials() {
	f.elsewhere = true
	var m struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	if err := json.Unmarshal(f.dialect.End(nil), &m); err != nil {
		panic("internal error: " + err.Error())
	}
	_ = f.Caller.Notify(m.Method, m.Params) // fails only if the client has closed
}
