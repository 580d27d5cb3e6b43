package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// maxAsking bounds the questions that a server of the stateless era may ask at the same time in one call: as
// many as rpc.Client allows in the handshake era.
const maxAsking = 64

// canPut reports whether somebody can answer a request of the server.
func (c *Call) canPut(r mcp.InputRequest) bool {
	return r.Method == "elicitation/create" || c.o.Others
}

// put passes a request of the server to Options.Request.
//
// A panic fails only the question: on its separate goroutine, it would end the process.
func (c *Call) put(ctx context.Context, r mcp.InputRequest) (answer json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.o.Log.Error().Str("tool", c.tool).Str("panic", fmt.Sprint(p)).Bytes("stack", debug.Stack()).
				Msg("putting a question panicked")
			answer, err = nil, rpc.Errorf(mcp.CodeInternalError, "internal error")
		}
	}()
	given, err := c.o.Request(ctx, r.Method, r.Params)
	return rawjson.Encode(given), err
}

// take reserves a question of a task, so that it is asked only once. If too many are open, the question comes
// again with the task's next state.
func (c *Call) take(key string, r mcp.InputRequest) (done func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answered[key] || c.open == maxAsking || !c.canPut(r) {
		return nil, false
	}
	c.answered[key] = true
	c.open++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.open--
	}, true
}

// Rounds sends a request, repeats it as long as the answer is questions (basic/patterns/mrtr), and returns
// the last answer. can reports whether a question can be put, and is called for all of them before put.
//
// With an answer that has no questions, a server asks for the request again. It "MAY" be sent "immediately";
// there is a growing pause, so that such a server is not called in a busy loop.
func Rounds(ctx context.Context, params json.RawMessage,
	send func(params json.RawMessage) (raw json.RawMessage, asks bool, err error),
	can func(mcp.InputRequest) bool,
	put func(context.Context, mcp.InputRequest) (json.RawMessage, error)) (json.RawMessage, error) {
	for pause := leastPoll; ; pause = min(2*pause, defaultPoll) {
		raw, asks, err := send(params)
		if err != nil || !asks {
			return raw, err
		}
		var asked mcp.InputRequiredResult
		if err := json.Unmarshal(raw, &asked); err != nil {
			return nil, fmt.Errorf("reading the questions: %w", err)
		}
		if n := len(asked.InputRequests); n > maxAsking {
			return nil, fmt.Errorf("the server asks %d questions at once: the limit is %d", n, maxAsking)
		}
		for _, q := range asked.InputRequests {
			if !can(q) {
				return nil, fmt.Errorf("the server asks for %.100q, which cannot be given", q.Method)
			}
		}
		if params, err = answer(ctx, &asked, params, put); err != nil && ctx.Err() == nil {
			return nil, err
		}
		if len(asked.InputRequests) == 0 {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// answer puts all questions, and returns the params of the next request.
func answer(ctx context.Context, asked *mcp.InputRequiredResult, params json.RawMessage,
	put func(context.Context, mcp.InputRequest) (json.RawMessage, error)) (json.RawMessage, error) {
	var waiting sync.WaitGroup
	var mu sync.Mutex
	var failed error
	answers := map[string]json.RawMessage{}
	for key, r := range asked.InputRequests {
		waiting.Go(func() {
			answer, err := put(ctx, r)
			mu.Lock()
			defer mu.Unlock()
			if answers[key] = answer; err != nil {
				failed = err
			}
		})
	}
	waiting.Wait()
	// A requestState or an answer that the server did not ask for this time is left out: a client must not
	// make up a requestState.
	var state, responses any
	if asked.RequestState != "" {
		state = asked.RequestState
	}
	if len(answers) > 0 {
		responses = answers
	}
	return rawjson.WithMember(rawjson.WithMember(params, "requestState", state), "inputResponses", responses),
		failed
}
