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

// ask sends a question as soon as the other side has read what came before it, and waits for the first answer. It returns the other side's
// error as an *[Error], and an error that wraps [ErrClosed] if no answer can come. If ctx ends first, ask sends notifications/cancelled and
// returns the cause of ctx.
func (p *peer) ask(ctx context.Context, q *question) (json.RawMessage, error) {
	wait, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.input, cancel)()
	if q.w != p.w { // an exchange; on pipes an answer may still be waiting to be read, even though nothing more can be written
		defer context.AfterFunc(q.w.failed, cancel)() // nobody takes the question, so no answer will come
	}
	waiter, err := p.dispatch(wait, q)
	if err != nil {
		p.outgoing.forget(q)
		return nil, p.unanswered(ctx, q, err)
	}
	err = waiter.Wait(wait, nil)
	if err != nil && !p.outgoing.recall(q) { // an answer that has arrived counts, whatever else has happened
		err = waiter.Wait(context.Background(), nil)
	}
	switch {
	case err == nil && q.answer.Err != nil:
		return nil, q.answer.Err
	case err == nil:
		return q.answer.Result, nil
	}
	if err = p.unanswered(ctx, q, err); ctx.Err() != nil && p.input.Err() == nil && q.method != "initialize" { // "The initialize request MUST NOT be cancelled by clients"
		c := mcp.CancelledParams{RequestID: strconv.AppendUint(nil, q.id, 10), Reason: err.Error(), Meta: q.meta}
		_ = notify(q.head, "notifications/cancelled", c, q.w.now)
	}
	return nil, err
}

// dispatch sends a question when its turn has come. Only one question at a time waits for its turn, and its line is built after that: many
// questions that got their turn together could fill memory.
func (p *peer) dispatch(ctx context.Context, q *question) (waiter jsonrpc2.Waiter, err error) {
	select {
	case p.asking <- struct{}{}:
	case <-ctx.Done():
		return waiter, ctx.Err()
	}
	defer func() { <-p.asking }()
	if err := q.w.inTurn(ctx, nil, 0); err != nil {
		return waiter, err
	}
	p.outgoing.last++
	q.id, p.outgoing.sending = p.outgoing.last, q
	opts := []jsonrpc2.CallOption{jsonrpc2.PickID(jsonrpc2.ID{Num: q.id})}
	if _, session, ok := bytes.Cut(q.head, []byte(`,"sessionId":`)); ok {
		opts = append(opts, jsonrpc2.ExtraField("sessionId", json.RawMessage(session)))
	}
	return p.conn.DispatchCall(ctx, q.method, q.params, opts...)
}

// unanswered returns the reason why a question has no answer.
func (p *peer) unanswered(ctx context.Context, q *question, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case p.input.Err() != nil, errors.Is(err, jsonrpc2.ErrClosed):
		return fmt.Errorf("%w: %w", ErrClosed, context.Cause(p.input))
	case q.w.failed.Err() != nil:
		return fmt.Errorf("%w: %w", ErrClosed, context.Cause(q.w.failed))
	}
	return err
}
