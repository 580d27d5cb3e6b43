package tools

import (
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
