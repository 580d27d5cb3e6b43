package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"

	"github.com/sourcegraph/jsonrpc2"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// outgoing holds our requests that have no answer yet, or not all of their answers.
type outgoing struct {
	mu       sync.Mutex
	last     uint64
	waiting  map[uint64]*question
	recalled []uint64 // those that nobody waits for any more, until the Conn has forgotten them
}

// question is a request of ours.
type question struct {
	method     string
	params     any            // encodes to JSON; nil = none
	head       []byte         // of the lines that belong to it
	meta       map[string]any // of its cancellation
	onResponse func(Response) (more bool)

	answered bool // the Conn has its first answer, or will have it at once
}

// add numbers a question, from 1: some clients and servers take an id of 0 for none.
func (o *outgoing) add(q *question) (id uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last++
	o.waiting[o.last] = q
	return o.last
}

// forget drops all further answers to a question.
func (o *outgoing) forget(id uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.waiting, id)
}

// answer takes an answer. q is nil if it answers nothing.
func (o *outgoing) answer(id uint64) (q *question, first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if q = o.waiting[id]; q == nil {
		return nil, false
	}
	first, q.answered = !q.answered, true
	return q, first
}

// recall takes back a question that nobody waits for any more. It reports false if its answer is on its way to who asked.
// The Conn forgets a question only with its answer, which the other side, told of the cancellation, does not send: the reader makes one up.
func (o *outgoing) recall(id uint64, q *question) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if q.answered {
		return false
	}
	delete(o.waiting, id)
	o.recalled = append(o.recalled, id)
	return true
}

// madeUp is an answer to a question that was taken back, nil if there is none.
func (o *outgoing) madeUp() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.recalled) == 0 {
		return nil
	}
	id := o.recalled[0]
	o.recalled = o.recalled[1:]
	return encodeAnswer(id, Response{Err: errInternal})
}

// ask sends a question, as soon as the other side has read what came before it, and waits for its first answer. It returns the
// other side's error as an *[Error], and an error that wraps [ErrClosed] when no answer can come. If ctx ends first, the other side is told by
// notifications/cancelled, and ask returns the cause of ctx.
func (p *peer) ask(ctx context.Context, q *question) (id uint64, answer json.RawMessage, err error) {
	wait, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.input, cancel)()
	if err := p.w.awaitTurn(wait, 0, func(dst []byte) []byte { return dst }); err != nil {
		return 0, nil, p.unanswered(ctx, err)
	}
	id = p.outgoing.add(q)
	opts := []jsonrpc2.CallOption{jsonrpc2.PickID(jsonrpc2.ID{Num: id})}
	if _, session, ok := bytes.Cut(q.head, []byte(`,"sessionId":`)); ok {
		opts = append(opts, jsonrpc2.ExtraField("sessionId", json.RawMessage(session)))
	}
	waiter, err := p.conn.DispatchCall(wait, q.method, q.params, opts...)
	if err != nil {
		p.outgoing.forget(id)
		return id, nil, p.unanswered(ctx, err)
	}
	var text string
	err = waiter.Wait(wait, &text)
	if err != nil && err == wait.Err() && !p.outgoing.recall(id, q) { // an answer that is there counts, whatever else has happened
		err = waiter.Wait(context.Background(), &text)
	}
	var failure *jsonrpc2.Error
	switch {
	case err == nil:
		return id, json.RawMessage(text), nil
	case errors.As(err, &failure):
		e := &Error{Code: int(failure.Code), Message: failure.Message}
		if failure.Data != nil {
			_ = json.Unmarshal(*failure.Data, &e.Data)
		}
		return id, nil, e
	}
	p.outgoing.forget(id)
	if err = p.unanswered(ctx, err); ctx.Err() != nil && p.input.Err() == nil && q.method != "initialize" { // "The initialize request MUST NOT be cancelled by clients"
		c := mcp.CancelledParams{RequestID: strconv.AppendUint(nil, id, 10), Reason: err.Error(), Meta: q.meta}
		_ = p.notify(q.head, "notifications/cancelled", c, p.now)
	}
	return id, nil, err
}

// unanswered says why a question has no answer.
func (p *peer) unanswered(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case p.input.Err() != nil, errors.Is(err, jsonrpc2.ErrClosed):
		return p.closed()
	}
	return err
}

// answered takes an answer of the other side, and returns it for the Conn if it is the first one. One that answers nothing is ignored.
func (p *peer) answered(e *envelope, r Response) []byte {
	id, err := strconv.ParseUint(string(e.id), 10, 64)
	q, first := p.outgoing.answer(id)
	if err != nil || q == nil {
		p.log.Debug().Bytes("id", e.id).Bytes("error", e.err).Msg("ignoring a response to nothing")
		return nil
	}
	if q.onResponse == nil || !q.onResponse(r) {
		p.outgoing.forget(id)
	}
	if !first {
		return nil
	}
	return encodeAnswer(id, r)
}

// encodeAnswer is an answer as the Conn gets it.
func encodeAnswer(id uint64, r Response) []byte {
	text := strconv.AppendUint([]byte(`{"id":`), id, 10)
	if r.Err != nil {
		return append(append(append(text, `,"error":`...), rawjson.Encode(r.Err)...), '}')
	}
	return append(rawjson.AppendText(append(text, `,"result":"`...), r.Result), `"}`...)
}
