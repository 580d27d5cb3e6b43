package upstream

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tools"
	"runnel/tools/secrets"
)

const (
	// parkedTTL is how long a request waits for the answer to its question: as long as a person may need.
	parkedTTL = 10 * time.Minute
	// maxParked is how many requests on a link may wait for answers.
	maxParked = 100
	// maxHeld is how many requests of a server may wait for a request of the client.
	maxHeld = 16
)

// forwards are the requests on a link that are not calls.
//
// A server of the handshake era asks its questions by requests of its own. A client of the stateless era gets
// such a question as the answer, and comes back with the response: until then its request is parked, and so
// is that of the server. As for calls, the requestState is "an attacker-controlled input" (2026-07-28
// basic/patterns/mrtr, "Server Requirements"): it cannot be guessed, and is valid once.
//
// A question that such a server asks while no request is under way waits for the next request that may be
// answered by a question.
type forwards struct {
	mu   sync.Mutex
	last int
	list []*forwarded // oldest first
	held []*held      // oldest first
}

// forwarded is a request on a link.
type forwarded struct {
	token        string // runnel's own, "" if the client wants no progress
	method, name string // name is that of the prompt or the resource
	asks         chan *asked
	end          context.CancelCauseFunc // nil: it cannot be parked
	done         chan struct{}           // closed after result and err are set
	result       json.RawMessage
	err          error

	// Guarded by forwards.mu.
	caller *rpc.Caller // nil while it is parked
	state  string      // the requestState of a request that is parked
	asked  *asked      // what its client has been asked
}

// asked is a question of the server.
type asked struct {
	mcp.InputRequest
	answer chan json.RawMessage // capacity 1
}

// held is a request of a server that no request of the client can carry yet.
type held struct {
	ctx    context.Context // ends when the server has withdrawn it, and after parkedTTL
	method string
	params json.RawMessage
	answer chan reply    // capacity 1
	sent   chan struct{} // closed after the answer has been queued for the server
}

// reply is what a client answers.
type reply struct {
	result json.RawMessage
	err    error
}

// questionKey is the key of a question in inputRequests.
const questionKey = "question"

// do sends a request, or goes on with one that was parked, until the server answers or asks something.
func (f *forwards) do(ctx context.Context, c *rpc.Caller, client *rpc.Client, method string,
	params json.RawMessage, hide *secrets.Set) (json.RawMessage, error) {
	theirs := toServer(params, client.Era())
	// "Servers MAY send InputRequiredResult responses only on [...] prompts/get, resources/read, tools/call"
	// (basic/patterns/mrtr).
	if c.Era == rpc.Handshake || client.Era() == rpc.Stateless ||
		method != "prompts/get" && method != "resources/read" {
		r, theirs := f.begin(&forwarded{caller: c}, theirs)
		defer f.remove(r)
		return do(ctx, c, client, method, theirs, hide)
	}
	r := &forwarded{caller: c, method: method,
		name: rawjson.StringMember(params, "name") + rawjson.StringMember(params, "uri")}
	var err error
	if rawjson.Member(params, "requestState") != nil {
		r, err = f.take(r, params)
	} else {
		r.asks, r.done = make(chan *asked), make(chan struct{})
		var sending context.Context
		sending, r.end = context.WithCancelCause(context.WithoutCancel(ctx))
		r, theirs = f.begin(r, theirs)
		go func() { // ends with the connection
			defer r.end(nil)
			defer close(r.done)
			f.release(sending, c, func(ctx context.Context, method string,
				params json.RawMessage) (json.RawMessage, error) {
				return f.put(ctx, r, method, params)
			})
			r.result, r.err = do(sending, c, client, method, theirs, hide)
		}()
	}
	if err != nil {
		return nil, err
	}
	select {
	case q := <-r.asks:
		return f.park(r, q)
	case <-r.done:
		f.remove(r)
		return r.result, r.err
	case <-ctx.Done():
		f.remove(r)
		r.end(context.Cause(ctx))
		return nil, context.Cause(ctx)
	}
}

// begin records a request, and gives it a token of its own if its client wants progress.
func (f *forwards) begin(r *forwarded, params json.RawMessage) (*forwarded, json.RawMessage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, r)
	if len(r.caller.Meta.ProgressToken) == 0 {
		return r, params
	}
	f.last++
	r.token = fmt.Sprintf("forward-%d", f.last)
	return r, rawjson.WithMember(params, "_meta",
		rawjson.WithMember(rawjson.Member(params, "_meta"), "progressToken", r.token))
}

func (f *forwards) remove(r *forwarded) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = slices.DeleteFunc(f.list, func(other *forwarded) bool { return other == r })
}

// park leaves a request until its client comes back, and returns the question as the answer.
func (f *forwards) park(r *forwarded, q *asked) (json.RawMessage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	parked := 0
	for _, other := range f.list {
		if other.state != "" {
			parked++
		}
	}
	if parked >= maxParked {
		err := rpc.Errorf(mcp.CodeBusy,
			"too many requests wait for the answers to their questions: the limit is %d", maxParked)
		r.end(err)
		return nil, err
	}
	r.state = rand.Text()
	r.asked = q
	r.caller = nil
	state := r.state
	time.AfterFunc(parkedTTL, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if r.state == state {
			f.list = slices.DeleteFunc(f.list, func(other *forwarded) bool { return other == r })
			r.end(errors.New("its question was not answered in time"))
		}
	})
	return rawjson.Encode(mcp.InputRequiredResult{
		ResultType:    mcp.ResultInputRequired,
		InputRequests: map[string]mcp.InputRequest{questionKey: q.InputRequest},
		RequestState:  state,
	}), nil
}

// take gives the parked request that a client comes back to its answer, and returns it. A request without the
// answer may be sent again.
func (f *forwards) take(again *forwarded, params json.RawMessage) (*forwarded, error) {
	answer := rawjson.Member(rawjson.Member(params, "inputResponses"), questionKey)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.list {
		if r.state == "" || r.state != rawjson.StringMember(params, "requestState") ||
			r.method != again.method || r.name != again.name {
			continue
		}
		if !rawjson.IsObject(answer) {
			return nil, rpc.Errorf(mcp.CodeInvalidParams,
				"params.inputResponses.%s must be an object: the response to %s", questionKey, r.asked.Method)
		}
		r.asked.answer <- bytes.Clone(answer)
		r.caller = again.caller
		r.state = ""
		r.asked = nil
		return r, nil
	}
	return nil, rpc.Errorf(mcp.CodeInvalidParams,
		"params.requestState is not known: it has expired, was used before, or was never given; send the "+
			"request again without it")
}

// ask puts a server's question to the client of the only request that it can belong to. ok is false if there
// is none.
func (f *forwards) ask(ctx context.Context, method string,
	params json.RawMessage) (answer json.RawMessage, ok bool, err error) {
	f.mu.Lock()
	var r *forwarded
	several := false
	for _, other := range f.list {
		if other.end != nil && other.caller != nil {
			several = r != nil
			r = other
		}
	}
	var caller *rpc.Caller
	if r != nil {
		caller = r.caller
	}
	f.mu.Unlock()
	switch {
	case r == nil:
		return nil, false, nil
	case several && method != "roots/list": // any of them can carry that
		return nil, true, rpc.Errorf(mcp.CodeInternalError,
			"%s: several requests are under way, and nothing says which of them asks", method)
	case !tools.CanDo(caller, method, params):
		return nil, true, rpc.Errorf(mcp.CodeMethodNotFound, "%s: the client does not support it", method)
	}
	answer, err = f.put(ctx, r, method, params)
	return answer, true, err
}

// errAnswered is the error of a question whose request the server has answered.
var errAnswered = errors.New("the question came too late: the request has been answered")

// put puts a server's question to the client of a request, and waits for the answer.
func (f *forwards) put(ctx context.Context, r *forwarded, method string,
	params json.RawMessage) (json.RawMessage, error) {
	if len(params) > mcp.MaxContent {
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "%s: the params have %d bytes: the limit is %d", method,
			len(params), mcp.MaxContent)
	}
	q := &asked{mcp.InputRequest{Method: method, Params: params}, make(chan json.RawMessage, 1)}
	select {
	case r.asks <- q:
	case <-r.done:
		return nil, errAnswered
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case answer := <-q.answer:
		return answer, nil
	case <-r.done:
		return nil, errAnswered
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// hold keeps a server's request until release has put it to a client.
func (f *forwards) hold(ctx context.Context, method string, params json.RawMessage) (any, error) {
	late := rpc.Errorf(mcp.CodeInternalError,
		"%s: no request of the client within %v could be answered by this question", method, parkedTTL)
	ctx, cancel := context.WithTimeoutCause(ctx, parkedTTL, late)
	defer cancel()
	h := &held{ctx, method, params, make(chan reply, 1), make(chan struct{})}
	f.mu.Lock()
	full := len(f.held) >= maxHeld
	if !full {
		f.held = append(f.held, h)
	}
	f.mu.Unlock()
	if full {
		return nil, rpc.Errorf(mcp.CodeBusy,
			"%s: too many requests wait for a request of the client: the limit is %d", method, maxHeld)
	}
	sent := func() { close(h.sent) }
	select {
	case r := <-h.answer:
		return rpc.After{Result: r.result, Do: sent, Drop: sent}, r.err
	case <-ctx.Done():
		f.mu.Lock()
		f.held = slices.DeleteFunc(f.held, func(other *held) bool { return other == h })
		f.mu.Unlock()
		return rpc.After{Do: sent, Drop: sent}, context.Cause(ctx)
	}
}

// asker puts a question to a client, and waits for the answer.
type asker func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)

// release puts the requests that are held to a client before its own request is sent: the server may need the
// answers for that. What the client has not been asked, or has not answered, is held again.
func (f *forwards) release(ctx context.Context, c *rpc.Caller, ask asker) {
	for c != nil && c.Era == rpc.Stateless {
		f.mu.Lock()
		i := slices.IndexFunc(f.held, func(h *held) bool {
			return h.ctx.Err() == nil &&
				tools.CanDo(c, h.method, h.params)
		})
		if i < 0 {
			f.mu.Unlock()
			return
		}
		h := f.held[i]
		f.held = slices.Delete(f.held, i, i+1)
		f.mu.Unlock()
		asking, stop := context.WithCancelCause(ctx)
		unhook := context.AfterFunc(h.ctx, func() { stop(context.Cause(h.ctx)) })
		result, err := ask(asking, h.method, h.params)
		unhook()
		stop(nil)
		refused, ok := errors.AsType[*rpc.Error](err)
		if err != nil && (!ok || refused.Code == mcp.CodeMethodNotFound) && h.ctx.Err() == nil {
			f.mu.Lock()
			f.held = slices.Insert(f.held, 0, h)
			f.mu.Unlock()
			return
		}
		h.answer <- reply{result, err}
		select {
		case <-h.sent:
		case <-ctx.Done():
		}
	}
}

// progress passes on the progress of a request, with its client's token.
func (f *forwards) progress(params json.RawMessage, hide *secrets.Set) {
	token := rawjson.StringMember(params, "progressToken")
	f.mu.Lock()
	var c *rpc.Caller
	for _, r := range f.list {
		if token != "" && r.token == token {
			c = r.caller
		}
	}
	f.mu.Unlock()
	if c != nil && len(c.Meta.ProgressToken) > 0 {
		// Fails only if the reader has closed.
		_ = c.TryNotify("notifications/progress",
			hide.JSON(rawjson.WithMember(params, "progressToken", c.Meta.ProgressToken)))
	}
}
