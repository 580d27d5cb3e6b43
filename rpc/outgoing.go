package rpc

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"runnel/internal/pause"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// outgoing holds our own requests that wait for an answer, or for further answers.
type outgoing struct {
	log zerolog.Logger

	turn chan struct{} // holds a value while a request waits for its turn; capacity 1
	// Owned by the holder of turn; starts at 1: some clients and servers treat the id 0 as none.
	last uint64

	mu      sync.Mutex
	waiting map[uint64]*request
}

// Response is one answer of the other side: a result or an error. [Request.OnResponse] gets each of them.
type Response struct {
	Result json.RawMessage
	Err    *Error
}

// request is a request of our own.
type request struct {
	id         uint64
	method     string
	params     any            // encodes to JSON; nil = none
	head       []byte         // the beginning of every line that belongs to it
	w          *writer        // sends it
	meta       map[string]any // goes into its cancellation
	onResponse func(Response) (more bool)

	answered bool          // its first answer has come
	answer   Response      // the first one
	first    chan struct{} // closed when that has come; nil if it passes a Conn
}

// send sends a request as soon as the other side has read what came before it, and waits for the first
// answer. It returns the other side's error as an *[Error], and an error that wraps [ErrClosed] if no answer
// can come. If ctx ends first, send sends notifications/cancelled and returns the cause of ctx.
func (p *peer) send(ctx context.Context, req *request) (json.RawMessage, error) {
	await, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.input, cancel)()
	// An exchange; on pipes an answer may still be waiting to be read, even though nothing more can be
	// written.
	if req.w != p.w {
		defer context.AfterFunc(req.w.failed, cancel)() // the request is not read, so no answer will come
	}
	wait, err := p.sendInTurn(await, req)
	if err != nil {
		p.outgoing.forget(req)
		return nil, p.unanswered(ctx, req, err)
	}
	err = wait(await)
	if err != nil && !p.withdraw(req) { // an answer that has arrived counts, whatever else has happened
		err = wait(context.Background())
	}
	switch {
	case err == nil && req.answer.Err != nil:
		return nil, req.answer.Err
	case err == nil:
		return req.answer.Result, nil
	}
	// "The initialize request MUST NOT be cancelled by clients".
	if err = p.unanswered(ctx, req, err); ctx.Err() != nil && p.input.Err() == nil &&
		req.method != "initialize" {
		c := mcp.CancelledParams{RequestID: strconv.AppendUint(nil, req.id, 10), Reason: err.Error(),
			Meta: req.meta}
		if notify(req.head, "notifications/cancelled", c, req.w.now) == ErrClosed {
			_ = notify(req.head, "notifications/cancelled", c, p.w.now)
		}
	}
	return nil, err
}

// sendInTurn sends a request when its turn has come; wait waits for its first answer. Only one request at a
// time waits for its turn, and its line is built after that: many lines that got their turn together could
// fill memory.
func (p *peer) sendInTurn(ctx context.Context, req *request) (wait func(context.Context) error, err error) {
	select {
	case p.outgoing.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-p.outgoing.turn }()
	if err := req.w.inTurn(ctx, nil, 0); err != nil {
		return nil, err
	}
	p.outgoing.last++
	req.id = p.outgoing.last
	if p.conn != nil {
		return p.conn.call(ctx, req)
	}
	req.first = make(chan struct{})
	p.outgoing.add(req)
	return req.await, ask(req.head, strconv.AppendUint(nil, req.id, 10), req.method, req.params, req.w.now)
}

// await waits for the first answer to a request that does not pass a Conn.
func (req *request) await(ctx context.Context) error {
	select {
	case <-req.first:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// unanswered returns the reason why a request has no answer.
func (p *peer) unanswered(ctx context.Context, req *request, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case p.input.Err() != nil:
		return fmt.Errorf("%w: %w", ErrClosed, context.Cause(p.input))
	case req.w.failed.Err() != nil:
		return fmt.Errorf("%w: %w", ErrClosed, context.Cause(req.w.failed))
	}
	return err
}

// answered takes an answer from the other side. One to no request is ignored.
func (p *peer) answered(id []byte, r Response) {
	o := &p.outgoing
	number := answeredID(id)
	o.mu.Lock()
	req := o.waiting[number]
	first := req != nil && !req.answered
	if first {
		if len(r.Result) <= keepBuffer { // else its line stays (lineReader.next)
			r.Result = bytes.Clone(r.Result)
		}
		req.answered, req.answer = true, r
	}
	o.mu.Unlock()
	if req == nil {
		o.log.Debug().Bytes("id", id).Any("error", r.Err).Msg("ignoring a response to no request")
		return
	}
	if req.onResponse == nil || !req.onResponse(r) {
		o.forget(req)
	}
	switch {
	case first && req.first != nil:
		close(req.first)
	case first:
		p.conn.deliver(number)
	}
}

// add registers a request that is about to be written.
func (o *outgoing) add(req *request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting[req.id] = req
}

// forget drops all further answers to a request.
func (o *outgoing) forget(req *request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.waiting, req.id)
}

// withdraw takes back a request whose sender no longer waits for the answer. It reports false if the answer
// is already on its way to the sender.
func (p *peer) withdraw(req *request) bool {
	p.outgoing.mu.Lock()
	defer p.outgoing.mu.Unlock()
	if req.answered {
		return false
	}
	delete(p.outgoing.waiting, req.id)
	if p.conn != nil {
		p.conn.deliver(req.id)
	}
	return true
}

// answeredID returns the id of ours that an answer means, 0 if it is none of them. Some servers write it as a
// string, or as 1.0.
func answeredID(id []byte) uint64 {
	text := cmp.Or(rawjson.Unquote(id), string(id))
	if number, err := strconv.ParseUint(text, 10, 64); err == nil {
		return number
	}
	number, err := strconv.ParseFloat(text, 64)
	if err != nil || number != math.Trunc(number) || number < 0 || number > math.MaxUint32 {
		return 0
	}
	return uint64(number)
}

// readError reads the other side's error. A member of the wrong type reads as absent. Data stays encoded: as
// an any it would take twenty times the memory.
func readError(raw []byte) *Error {
	var e struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
	_ = json.Unmarshal(raw, &e)
	failure := &Error{Code: e.Code, Message: e.Message}
	if e.Data != nil && string(e.Data) != "null" {
		failure.Data = e.Data
	}
	return failure
}

// ListPace is the shortest time between two notifications that a list has changed: a client reads the list
// again after each one. Whatever leads to such a notification need not be faster.
const ListPace = time.Second

// Announce calls tell when changed receives a value, at most once per [ListPace]: changes in between are
// combined. It returns when ctx ends or tell fails.
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
