package tools

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// parkedTTL is how long a call waits for the answers to its questions: as long as a person may take.
const parkedTTL = 10 * time.Minute

// parking holds the calls that were answered with questions and wait for their client to come back. What the client
// holds of one is its requestState, "an attacker-controlled input" (2026-07-28 basic/patterns/mrtr, "Server
// Requirements"): it is signed, expires, is bound to the tool and its arguments, and counts once.
type parking struct {
	key [32]byte // of this process: a state does not outlive the call that it names

	mu     sync.Mutex
	calls  map[string]*parkedCall // by the id of the run
	last   int64                  // number of a requestState
	closed bool                   // nothing more is parked
}

// parkedCall is a call that waits.
type parkedCall struct {
	audience *audience
	position int64 // where the output goes on that its client has not seen
	number   int64 // of its requestState: the one from before counts no more when the call is parked again
	expiry   *time.Timer
}

// parkedState is what is signed.
type parkedState struct {
	Run     string `json:"run"`
	Number  int64  `json:"number"`
	Expires int64  `json:"expires"` // Unix seconds
	Request []byte `json:"request"` // digest of the tool and its arguments
}

func newParking() *parking {
	p := &parking{calls: map[string]*parkedCall{}}
	_, _ = rand.Read(p.key[:]) // never fails
	return p
}

// maxParked is how many calls may wait for answers at once: each holds what its tool has started.
const maxParked = 100

// leave parks a call and returns its requestState, and what gives it up when the client never hears of that.
func (p *parking) leave(request *mcp.CallToolParams, call parkedCall) (requestState string, drop func(), err error) {
	id := call.audience.run.ID()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return "", nil, rpc.ErrClosed
	}
	if len(p.calls) >= maxParked {
		return "", nil, rpc.Errorf(mcp.CodeBusy, "too many calls wait for the answers to their questions: the limit is %d", maxParked)
	}
	p.last++
	call.number = p.last
	call.expiry = time.AfterFunc(parkedTTL, func() { p.giveUp(&call, "its questions were not answered in time") })
	p.calls[id] = &call
	state := rawjson.Encode(parkedState{Run: id, Number: call.number, Expires: time.Now().Add(parkedTTL).Unix(), Request: digest(request)})
	return base64.RawURLEncoding.EncodeToString(append(p.sign(state), state...)), func() { p.giveUp(&call, "cancelled by the client") }, nil
}

// take gives back the call that a request goes on with. One whose answers are wrong may be sent again.
func (p *parking) take(request *mcp.CallToolParams) (*parkedCall, error) {
	invalid := func(why string) error {
		return rpc.Errorf(mcp.CodeInvalidParams, "params.requestState %s: send the call again without it", why)
	}
	raw, err := base64.RawURLEncoding.DecodeString(request.RequestState)
	if err != nil || len(raw) < sha256.Size || !hmac.Equal(raw[:sha256.Size], p.sign(raw[sha256.Size:])) {
		return nil, invalid("is not one that this server gave")
	}
	var state parkedState
	if err := json.Unmarshal(raw[sha256.Size:], &state); err != nil {
		return nil, invalid("is not one that this server gave")
	}
	if !bytes.Equal(state.Request, digest(request)) {
		return nil, invalid("belongs to another call")
	}
	if time.Now().Unix() >= state.Expires {
		return nil, invalid("has expired")
	}
	if call := p.find(state.Run, state.Number); call != nil {
		if err := call.audience.run.CheckResponses(request.InputResponses); err != nil {
			return nil, err
		}
	}
	call := p.remove(state.Run, state.Number)
	if call == nil {
		return nil, invalid("has expired or was used before")
	}
	return call, nil
}

// find is a call that waits with a number, nil if none does.
func (p *parking) find(id string, number int64) *parkedCall {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting(id, number)
}

// waiting is find under mu.
func (p *parking) waiting(id string, number int64) *parkedCall {
	if call := p.calls[id]; call != nil && call.number == number {
		return call
	}
	return nil
}

// close cancels what waits: nobody can come back any more.
func (p *parking) close() {
	p.mu.Lock()
	p.closed = true
	waiting := slices.Collect(maps.Values(p.calls))
	p.mu.Unlock()
	for _, call := range waiting {
		p.giveUp(call, "its client is gone")
	}
}

// giveUp cancels a call that still waits.
func (p *parking) giveUp(call *parkedCall, why string) {
	if p.remove(call.audience.run.ID(), call.number) != nil {
		call.audience.run.Cancel(why)
	}
}

// remove takes a call out of those that wait, nil if it does not wait or not with this number.
func (p *parking) remove(id string, number int64) *parkedCall {
	p.mu.Lock()
	defer p.mu.Unlock()
	call := p.waiting(id, number)
	if call != nil {
		delete(p.calls, id)
		call.expiry.Stop()
	}
	return call
}

func (p *parking) sign(state []byte) []byte {
	mac := hmac.New(sha256.New, p.key[:])
	mac.Write(state)
	return mac.Sum(nil)
}

// digest stands for the tool and the arguments of a call, however they are written.
func digest(request *mcp.CallToolParams) []byte {
	var arguments any
	_ = json.Unmarshal(request.Arguments, &arguments) // an object: checked before
	h := sha256.Sum256(rawjson.Encode([]any{request.Name, arguments}))
	return h[:]
}
