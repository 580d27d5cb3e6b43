package tools

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/feed"
)

const (
	// parkedTTL is how long a call waits for the answers to its questions: as long as a person may need.
	parkedTTL = 10 * time.Minute
	// maxParked is how many calls may wait for answers at once: each keeps what its tool has started.
	maxParked = 100
)

// parking holds the calls that were answered with questions until their client comes back. The client only
// has a requestState, "an attacker-controlled input" (2026-07-28 basic/patterns/mrtr, "Server Requirements"):
// it contains no information, cannot be guessed, and is valid once, for the same tool and arguments.
type parking struct {
	mu     sync.Mutex
	calls  map[string]*parkedCall // by requestState
	closed bool                   // nothing more can be parked
}

// parkedCall is a waiting call.
type parkedCall struct {
	audience *audience
	position int64             // where the output continues that its client has not seen
	request  [sha256.Size]byte // digest of the tool and its arguments
	expiry   *time.Timer
}

func newParking() *parking { return &parking{calls: map[string]*parkedCall{}} }

// put parks a call and returns its requestState.
func (p *parking) put(request *mcp.CallToolParams, call *parkedCall) (requestState string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return "", rpc.ErrClosed
	}
	if len(p.calls) >= maxParked {
		return "", rpc.Errorf(mcp.CodeBusy,
			"too many calls wait for the answers to their questions: the limit is %d", maxParked)
	}
	requestState = rand.Text()
	call.request = digest(request)
	call.expiry = time.AfterFunc(parkedTTL,
		func() { p.giveUp(requestState, "its questions were not answered in time") })
	p.calls[requestState] = call
	return requestState, nil
}

// claim returns the call that a request continues. A request with wrong answers may be sent again.
func (p *parking) claim(request *mcp.CallToolParams) (*parkedCall, error) {
	p.mu.Lock()
	call := p.calls[request.RequestState]
	p.mu.Unlock()
	if call != nil && call.request != digest(request) {
		return nil, rpc.Errorf(mcp.CodeInvalidParams,
			"params.requestState belongs to another call: send the call again without it")
	}
	if call != nil {
		if err := call.audience.run.CheckResponses(request.InputResponses); err != nil {
			return nil, err
		}
		call = p.remove(request.RequestState) // another request may have been faster
	}
	if call == nil {
		return nil, rpc.Errorf(mcp.CodeInvalidParams,
			"params.requestState is not known: it has expired, was used before, or was never given; send "+
				"the call again without it")
	}
	return call, nil
}

// close cancels the waiting calls: nobody can come back any more.
func (p *parking) close() {
	p.mu.Lock()
	p.closed = true
	waiting := slices.Collect(maps.Keys(p.calls))
	p.mu.Unlock()
	for _, requestState := range waiting {
		p.giveUp(requestState, "its client is gone")
	}
}

// giveUp cancels a call that still waits. One that resumes goes on as a task, whose questions others may
// answer.
func (p *parking) giveUp(requestState, why string) {
	call := p.remove(requestState)
	switch {
	case call == nil:
	case tasks.Resumes(call.audience.run.Task().Variables) != "":
		call.audience.run.Delivered()
	default:
		call.audience.run.Cancel(why)
	}
}

// remove removes and returns a waiting call, nil if it no longer waits.
func (p *parking) remove(requestState string) *parkedCall {
	p.mu.Lock()
	defer p.mu.Unlock()
	call := p.calls[requestState]
	if call != nil {
		delete(p.calls, requestState)
		call.expiry.Stop()
	}
	return call
}

// digest identifies the tool and the arguments of a call, however they are written.
func digest(request *mcp.CallToolParams) [sha256.Size]byte {
	var arguments any
	_ = json.Unmarshal(request.Arguments, &arguments) // an object, as was checked before
	return sha256.Sum256(rawjson.Encode([]any{request.Name, arguments}))
}

// park answers a call with its questions; the client answers them by sending the call again
// (basic/patterns/mrtr). Until then the run waits, and is cancelled if the client does not come back in time.
func (s *service) park(p *mcp.CallToolParams, d *delivery,
	questions map[string]mcp.InputRequest) (any, error) {
	run := d.Run
	for _, q := range questions {
		// "Servers MUST NOT send an inputRequests that the client has not declared support for": the client
		// that comes back with answers may declare less than the one that made the call.
		if err := need(d.Caller, q.Method, q.Params); err != nil {
			run.Cancel(err.Error())
			return nil, err
		}
	}
	if d.Started() {
		run.Hold()
	}
	d.Silence()
	position := d.Pos()
	if d.Started() && d.Spelling == feed.PR383 {
		d.EndPartials()
	}
	state, err := s.parked.put(p, &parkedCall{audience: d.audience, position: position})
	if err != nil {
		run.Cancel(err.Error())
		return nil, err
	}
	return rpc.After{
		Result: mcp.InputRequiredResult{ResultType: mcp.ResultInputRequired, InputRequests: questions,
			RequestState: state},
		Drop: func() { s.parked.giveUp(state, "cancelled by the client") },
	}, nil
}

// resume continues a call that was answered with questions.
func (s *service) resume(ctx context.Context, c *rpc.Caller, e *entry, p *mcp.CallToolParams) (any, error) {
	parked, err := s.parked.claim(p)
	if err != nil {
		return nil, err
	}
	d := s.deliverRest(c, parked.audience, parked.position)
	if err := d.Run.Answer(ctx, p.InputResponses); err != nil {
		s.giveUp(ctx, e, d.Run, c)
		return nil, err
	}
	questions := d.Run.Questions()
	if len(questions) > 0 && d.Run.Dismisses(p.InputResponses) {
		// Its user does not want to answer now: the call goes on as a task, where others can.
		if canTask(c, e) && d.Run.Promote(ctx) == nil {
			return created(d), nil
		}
		d.Start() // the end of the run waits for a delivery since it was parked
		if result := s.handOver(ctx, e, d); result != nil {
			return rpc.After{Result: dressResult(c.Version, result), Drop: drop(d.Run)}, nil
		}
	}
	if len(questions) > 0 {
		// "the server SHOULD respond with a new InputRequiredResult requesting the missing information again"
		return s.park(p, d, questions)
	}
	return s.answer(ctx, e, p, d)
}
