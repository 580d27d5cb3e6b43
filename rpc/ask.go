package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/sourcegraph/jsonrpc2"

	"runnel/rpc/mcp"
)

// ask sends a question, as soon as the other side has read what came before it, and waits for its first answer. It returns the
// other side's error as an *[Error], and an error that wraps [ErrClosed] when no answer can come. If ctx ends first, the other side is told by
// notifications/cancelled, and ask returns the cause of ctx.
func (p *peer) ask(ctx context.Context, q *question) (id uint64, answer json.RawMessage, err error) {
	wait, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.input, cancel)()
	id, waiter, err := p.dispatch(wait, q)
	if err != nil {
		p.outgoing.forget(id)
		return id, nil, p.unanswered(ctx, q, err)
	}
	var text quoted
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
		var data quoted
		if failure.Data != nil && json.Unmarshal(*failure.Data, &data) == nil && len(data) > 0 {
			e.Data = json.RawMessage(data)
		}
		return id, nil, e
	}
	p.outgoing.forget(id)
	if err = p.unanswered(ctx, q, err); ctx.Err() != nil && p.input.Err() == nil && q.method != "initialize" { // "The initialize request MUST NOT be cancelled by clients"
		c := mcp.CancelledParams{RequestID: strconv.AppendUint(nil, id, 10), Reason: err.Error(), Meta: q.meta}
		_ = p.notify(q.head, "notifications/cancelled", c, q.w.now)
	}
	return id, nil, err
}

// dispatch sends a question when its turn has come. Its line is queued only after that, so one at a time waits for its turn: many that
// have theirs together would all fill memory.
func (p *peer) dispatch(ctx context.Context, q *question) (id uint64, waiter jsonrpc2.Waiter, err error) {
	select {
	case p.asking <- struct{}{}:
	case <-ctx.Done():
		return 0, waiter, ctx.Err()
	}
	defer func() { <-p.asking }()
	if err := q.w.awaitTurn(ctx, &turn{encode: func(dst []byte) []byte { return dst }}); err != nil {
		return 0, waiter, err
	}
	id = p.outgoing.add(q)
	opts := []jsonrpc2.CallOption{jsonrpc2.PickID(jsonrpc2.ID{Num: id})}
	if _, session, ok := bytes.Cut(q.head, []byte(`,"sessionId":`)); ok {
		opts = append(opts, jsonrpc2.ExtraField("sessionId", json.RawMessage(session)))
	}
	waiter, err = p.conn.DispatchCall(ctx, q.method, q.params, opts...)
	return id, waiter, err
}

// unanswered says why a question has no answer.
func (p *peer) unanswered(ctx context.Context, q *question, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case p.input.Err() != nil, errors.Is(err, jsonrpc2.ErrClosed):
		return p.closed()
	case q.w.failed.Err() != nil:
		return fmt.Errorf("%w: %w", ErrClosed, context.Cause(q.w.failed))
	}
	return err
}

// closed says why no answer can come.
func (p *peer) closed() error { return fmt.Errorf("%w: %w", ErrClosed, context.Cause(p.input)) }
