package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"runnel/internal/pause"
	"runnel/rpc/mcp"
)

// send sends a request as soon as the other side has read what came before it, and waits for the first
// answer. It returns the other side's error as an *[Error], and an error that wraps [ErrClosed] if no answer
// can come. If ctx ends first, send sends notifications/cancelled and returns the cause of ctx.
func (p *peer) send(ctx context.Context, req *request) (json.RawMessage, error) {
	wait, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.input, cancel)()
	if req.w != p.w { // an exchange; on pipes an answer may still be waiting to be read, even though nothing more can be written
		defer context.AfterFunc(req.w.failed, cancel)() // nobody reads the request, so no answer will come
	}
	waiter, err := p.dispatch(wait, req)
	if err != nil {
		p.outgoing.forget(req)
		return nil, p.unanswered(ctx, req, err)
	}
	err = waiter.Wait(wait, nil)
	if err != nil && !p.outgoing.withdraw(req) { // an answer that has arrived counts, whatever else has happened
		err = waiter.Wait(context.Background(), nil)
	}
	switch {
	case err == nil && req.answer.Err != nil:
		return nil, req.answer.Err
	case err == nil:
		return req.answer.Result, nil
	}
	if err = p.unanswered(ctx, req, err); ctx.Err() != nil && p.input.Err() == nil && req.method != "initialize" { // "The initialize request MUST NOT be cancelled by clients"
		c := mcp.CancelledParams{RequestID: strconv.AppendUint(nil, req.id, 10), Reason: err.Error(), Meta: req.meta}
		if notify(req.head, "notifications/cancelled", c, req.w.now) == ErrClosed {
			_ = notify(req.head, "notifications/cancelled", c, p.w.now)
		}
	}
	return nil, err
}

// dispatch sends a request when its turn has come. Only one request at a time waits for its turn, and its
// line is built after that: many lines that got their turn together could fill memory.
func (p *peer) dispatch(ctx context.Context, req *request) (waiter jsonrpc2.Waiter, err error) {
	select {
	case p.sendTurn <- struct{}{}:
	case <-ctx.Done():
		return waiter, ctx.Err()
	}
	defer func() { <-p.sendTurn }()
	if err := req.w.inTurn(ctx, nil, 0); err != nil {
		return waiter, err
	}
	p.outgoing.last++
	req.id, p.outgoing.sending = p.outgoing.last, req
	opts := []jsonrpc2.CallOption{jsonrpc2.PickID(jsonrpc2.ID{Num: req.id})}
	if _, session, ok := bytes.Cut(req.head, []byte(`,"sessionId":`)); ok {
		opts = append(opts, jsonrpc2.ExtraField("sessionId", json.RawMessage(session)))
	}
	return p.conn.DispatchCall(ctx, req.method, req.params, opts...)
}

// unanswered returns the reason why a request has no answer.
func (p *peer) unanswered(ctx context.Context, req *request, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case p.input.Err() != nil, errors.Is(err, jsonrpc2.ErrClosed):
		return fmt.Errorf("%w: %w", ErrClosed, context.Cause(p.input))
	case req.w.failed.Err() != nil:
		return fmt.Errorf("%w: %w", ErrClosed, context.Cause(req.w.failed))
	}
	return err
}

// ListPace is the shortest time between two notifications that a list has changed: a client reads the list
// again after each one. Whatever leads to such a notification need not be faster.
const ListPace = time.Second

// Announce calls tell when changed receives a value, at most once per [ListPace]: changes in between are
// combined. It returns when ctx ends or tell fails. Use it with the channel of a Watch to send list_changed
// notifications to a client.
func Announce(ctx context.Context, changed <-chan struct{}, tell func() error) {
	for {
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
		if tell() != nil {
			return
		}
		if !pause.For(ctx, ListPace) {
			return
		}
	}
}
