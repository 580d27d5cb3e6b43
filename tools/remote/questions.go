package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"sync"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// maxAsking is how many questions of a server of the stateless era are put at once in one call, as many as rpc.Client lets one of
// the handshake era put.
const maxAsking = 64

// questions puts those of a server to the user.
type questions struct {
	o    *Options
	tool string

	mu       sync.Mutex
	answered map[string]bool // those of a task, by key
	open     int             // how many of them wait for an answer
}

// canPut reports whether a request of the server's can be put to anybody.
func (q *questions) canPut(r mcp.InputRequest) bool {
	return r.Method == "elicitation/create" || q.o.AskOther != nil
}

func errCannotPut(r mcp.InputRequest) error {
	return fmt.Errorf("the server asks for %.100q, which cannot be given", r.Method)
}

// put puts a request of the server's.
//
// A panic fails the question: its goroutine is not that of the call's work, and would end the process.
func (q *questions) put(ctx context.Context, r mcp.InputRequest) (answer json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			q.o.Log.Error().Str("tool", q.tool).Str("panic", fmt.Sprint(p)).Bytes("stack", debug.Stack()).Msg("putting a question panicked")
			answer, err = nil, rpc.Errorf(mcp.CodeInternalError, "internal error")
		}
	}()
	if !q.canPut(r) {
		return nil, errCannotPut(r)
	}
	if r.Method == "elicitation/create" && (q.o.AskOther == nil || rawjson.StringMember(r.Params, "mode") != "url") {
		answer, err := q.o.Ask(ctx, r.Params)
		return rawjson.Encode(answer), err
	}
	return q.o.AskOther(ctx, r.Method, r.Params)
}

// take reserves a question of a task, which is put once. What is too much at once comes again with the next state.
func (q *questions) take(key string, r mcp.InputRequest) (done func(), ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.answered[key] || q.open == maxAsking || !q.canPut(r) {
		return nil, false
	}
	if q.answered == nil {
		q.answered = map[string]bool{}
	}
	q.answered[key] = true
	q.open++
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.open--
	}, true
}

// Asked are the questions that a request was answered with (basic/patterns/mrtr).
type Asked struct{ mcp.InputRequiredResult }

// ReadAsked reads them.
func ReadAsked(result json.RawMessage) (*Asked, error) {
	a := &Asked{}
	if err := json.Unmarshal(result, &a.InputRequiredResult); err != nil {
		return nil, fmt.Errorf("reading the questions: %w", err)
	}
	if n := len(a.InputRequests); n > maxAsking {
		return nil, fmt.Errorf("the server asks %d questions at once: the limit is %d", n, maxAsking)
	}
	return a, nil
}

// Answer puts all of them and returns the params of the request to send again.
func (a *Asked) Answer(ctx context.Context, params json.RawMessage, put func(context.Context, mcp.InputRequest) (json.RawMessage, error)) (json.RawMessage, error) {
	var asked sync.WaitGroup
	var mu sync.Mutex
	var failed error
	answers := map[string]json.RawMessage{}
	for key, r := range a.InputRequests {
		asked.Go(func() {
			answer, err := put(ctx, r)
			mu.Lock()
			defer mu.Unlock()
			if answers[key] = answer; err != nil {
				failed = err
			}
		})
	}
	asked.Wait()
	// A requestState that the server has not given this time is left out: a client must not make up a requestState.
	var state any
	if a.RequestState != "" {
		state = a.RequestState
	}
	params = rawjson.WithMember(params, "requestState", state)
	if len(answers) == 0 {
		return rawjson.WithMember(params, "inputResponses", nil), failed
	}
	return rawjson.WithMember(params, "inputResponses", answers), failed
}
