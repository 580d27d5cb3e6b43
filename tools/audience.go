package tools

import (
	"context"
	"encoding/json"
	"sync/atomic"

	"runnel/internal/signal"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/feed"
	"runnel/tasks/run"
)

// audience is the client of a call. In the stateless era a call may be answered with questions, and continue
// with another request, which gets another delivery but the same audience.
//
// In the handshake era a question goes out as elicitation/create, at once and not only when tasks/result is
// called: some hosts only ever call tasks/get. In the stateless era the server writes no requests: the
// question is in the answer to the call, or in its task.
type audience struct {
	run     *run.Run // set before the work begins
	current atomic.Pointer[delivery]
	turn    chan struct{}   // holds an element for each open question; its capacity is the limit
	lasting chan struct{}   // the same for lasting ones
	placed  signal.Latch    // it is known which process runs the call
	known   signal.Latch    // the client knows the task
	left    atomic.Bool     // the client was told to come back for the task, and no longer waits for the call
	mute    atomic.Bool     // the client cannot ask its user what lasts
	unasked signal.Latch    // and such a question is open
	far     tasks.FarClient // in a worker, instead of a caller
	byClock bool            // no client has made the call, and none will come back for it
	apart   bool            // the call runs in another process, or tries to; set before it begins
	parent  *audience       // of the call that has made this one, which asks for it; nil = a client has made it
	depth   int             // how many calls stand above this one

	end       signal.Latch   // set when the task has ended
	questions signal.Counter // the open questions
}

// Status implements run.Client.
func (a *audience) Status(t mcp.Task) { a.current.Load().Status(t) }

// Silence implements run.Client. It also withdraws the open questions, and admits no new ones.
func (a *audience) Silence() {
	a.current.Load().Silence()
	a.end.Set()
	// Then the client has learned that they are withdrawn, as far as it reads.
	_ = a.questions.Wait(context.Background()) // never fails
	// The call may have come back by now; if it comes back later, it finds a.end.
	a.current.Load().Silence()
}

// opens counts one more question, which Silence then waits for, and reports false if the task has ended. It
// counts before it looks, and Silence sets the end before it waits: one of the two sees the other.
func (a *audience) opens() bool {
	a.questions.Add()
	if a.end.IsSet() {
		a.questions.Done()
		return false
	}
	return true
}

// report passes on the progress that the tool reports. params are those of another server's notification, nil
// if there is none.
func (a *audience) report(p tasks.Progress, params json.RawMessage) {
	if a.far.Progress {
		a.run.PublishProgress()
		return
	}
	a.current.Load().Report(p, params)
}

// dress converts the call's result to what a version knows. Of another server's result, only what no client
// of the era reads is converted.
func (a *audience) dress(v *mcp.Version, r *mcp.CallToolResult) *mcp.CallToolResult {
	switch {
	case !a.current.Load().Relays:
		return dressResult(v, r)
	case len(r.StructuredContent) > 0 && r.StructuredContent[0] != '{':
		return r.For(v)
	}
	return r
}

// caller returns the sender of the latest request of the call: capabilities belong to a request.
func (a *audience) caller() *rpc.Caller { return a.current.Load().Caller }

// delivery is what the client of a call is sent through one request.
type delivery struct {
	feed.Feed
	audience *audience
	params   json.RawMessage // of the request that made the call; nil: it was made in another way
}

// begin opens the delivery of a run, and starts its work.
func (d *delivery) begin(run *run.Run) {
	d.audience.run = run
	d.Open(run)
	run.Begin()
}

// answer returns the answer to a plain call whose run has ended: the result as the client's version knows it,
// without what was already sent, "content: []" (PR #383, after LSP's partial results: the final result is
// empty then).
func (d *delivery) answer() (any, error) {
	outcome := d.Run.Outcome()
	if outcome.Err != nil {
		return nil, outcome.Err
	}
	dressed := d.audience.dress(d.Caller.Version, outcome.Result)
	// Without content, dressed has the structured content as text, which was not sent.
	if d.Spelling != feed.PR383 || len(outcome.Result.Content) == 0 || !d.Told() {
		return dressed, nil
	}
	empty := *dressed
	empty.Content = []mcp.ContentBlock{}
	return &empty, nil
}

// dressTool removes from a tool what a version does not know: "the server never sends what the negotiated
// version does not have".
func dressTool(v *mcp.Version, t mcp.Tool) mcp.Tool {
	if !v.Annotations {
		t.Annotations = nil
	}
	if !v.Titles {
		t.Title = ""
	}
	if !v.StructuredContent || !v.AnyStructured && rawjson.StringMember(t.OutputSchema, "type") != "object" {
		t.OutputSchema = nil
	}
	if !v.ContentMeta {
		t.Meta = nil
	}
	if !v.Tasks {
		t.Execution = nil
	}
	if !v.Icons {
		t.Icons = nil
	}
	return t
}

// dressResult converts a result to what a version knows; content of an unknown type becomes a text that names
// it.
func dressResult(v *mcp.Version, r *mcp.CallToolResult) *mcp.CallToolResult {
	r = r.For(v)
	if v.Audio && v.ResourceLinks {
		return r
	}
	dressed := *r
	dressed.Content = make([]mcp.ContentBlock, len(r.Content))
	for i, c := range r.Content {
		dressed.Content[i] = feed.Content(v, c)
	}
	return &dressed
}
