package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strconv"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"runnel/internal/signal"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// peer is one end of a connection: it takes lines of the other side, matches answers with requests, and
// writes. Its role, server (session) or client ([Client]), decides how it treats a request. The lines come
// from two pipes (conn) or a carrier brings them ([Session]).
type peer struct {
	role      role
	log       zerolog.Logger
	maxLine   int
	maxValues int               // in a line; 0 = any number
	anyBytes  bool              // bytes that are not UTF-8 are read as U+FFFD, as the official clients do
	onLine    func(line []byte) // gets each line that is JSON; may be nil

	w        *writer
	incoming incoming
	outgoing outgoing
	conn     *conn // nil if a carrier brings the lines

	input    context.Context // ends when nothing more arrives; its cause is the reason
	endInput context.CancelCauseFunc

	ctx    context.Context // parent of the handlers' contexts
	cancel context.CancelCauseFunc
}

// role is how a peer treats what it takes. Nothing in it may wait.
type role interface {
	// request starts to answer a request: with [call.start] or [peer.answer].
	request(c *call)
	// notification gets a notification, which is valid until it returns.
	notification(m *message)
	// array gets an array of messages before the peer goes through it. The batch collects the answers for w;
	// nil if they are not collected.
	array(line []byte, w *writer) (*batch, *Error)
	// refuse gets an invalid message, and its line if that was short enough to keep. If it was meant as an
	// answer, refuse returns an error for the request that waits for it, else nil.
	refuse(m *message, line []byte) *Error
}

// newPeer makes a peer. The caller still has to set its role and ctx, and its conn.
func newPeer(out Output, maxLine, maxInFlight int, log zerolog.Logger) *peer {
	p := &peer{log: log, maxLine: maxLine}
	p.input, p.endInput = context.WithCancelCause(context.Background())
	p.incoming = incoming{max: maxInFlight, maxBytes: inFlightLines * int64(maxLine), cause: ErrCancelled,
		room: signal.NewWake(), byID: map[string]*call{}, streams: map[string]bool{}}
	p.outgoing = outgoing{log: log, turn: make(chan struct{}, 1), waiting: map[uint64]*request{}}
	p.w = newWriter(out, p.incoming.freeSlots, log)
	p.w.lasts = true
	return p
}

// inFlightLines bounds the params of all requests in flight, in units of the longest line.
const inFlightLines = 4

// start starts writing, and reading if there are pipes.
func (p *peer) start() {
	go p.w.run()
	if p.conn != nil {
		p.conn.read()
	}
}

// take takes a line, which must stay unchanged until it returns. A single request, with which it reports
// true, is left to the caller; everything else is treated here. Answers go to w. One line is taken at a time.
func (p *peer) take(line []byte, w *writer) (m message, request bool) {
	values, ok := rawjson.Scan(line)
	if !ok && p.anyBytes && !utf8.Valid(line) {
		line = bytes.ToValidUTF8(line, []byte("\uFFFD"))
		values, ok = rawjson.Scan(line)
	}
	if ok && p.onLine != nil {
		p.onLine(line)
	}
	switch {
	case !ok:
		m.problem = Errorf(mcp.CodeParseError, "%s", parseError(line))
	case p.maxValues > 0 && values > p.maxValues:
		m = parseMessage(line)
		m.problem = Errorf(mcp.CodeInvalidRequest, "too many values in a message: the limit is %d",
			p.maxValues)
	case line[0] == '[':
		batch, problem := p.role.array(line, w)
		if problem != nil {
			m.problem = problem
			break
		}
		for it := rawjson.Over(line); it.Next(); {
			member := parseMessage(it.Value)
			member.w, member.batch = w, batch
			if p.dispatch(&member, it.Value) {
				p.pass(&member)
			}
		}
		if batch != nil {
			batch.start()
		}
		return m, false
	default:
		m = parseMessage(line)
	}
	m.w = w
	return m, p.dispatch(&m, line)
}

// dispatch treats a message. It does nothing with a request but report true.
func (p *peer) dispatch(m *message, line []byte) (request bool) {
	switch {
	case m.problem != nil:
		p.log.Debug().Int("code", m.problem.Code).Str("problem", m.problem.Message).Msg("refusing a message")
		if failure := p.role.refuse(m, line); failure != nil {
			p.answered(m.id, Response{Err: failure})
		}
	case m.method == nil && m.err != nil:
		p.answered(m.id, Response{Result: m.result, Err: readError(m.err)})
	case m.method == nil:
		p.answered(m.id, Response{Result: m.result})
	case m.id == nil:
		p.role.notification(m)
	default:
		return true
	}
	return false
}

// pass passes a request to the role, without a Conn in between.
func (p *peer) pass(m *message) {
	c := p.newCall(m)
	c.method = rawjson.Unquote(m.method)
	p.role.request(c)
}

// newCall copies what a request needs out of its line, but the method.
func (p *peer) newCall(m *message) *call {
	raw := append(append(make([]byte, 0, len(m.id)+len(m.params)), m.id...), m.params...)
	m.w.hold()
	c := &call{incoming: &p.incoming, log: &p.log, parent: p.ctx, w: m.w, id: raw[:len(m.id):len(m.id)],
		key: idKey(m.id), head: m.head(), batch: m.batch}
	if m.params != nil {
		c.params = raw[len(m.id):]
	}
	return c
}

// panicked ends the input after taking a line has panicked.
func (p *peer) panicked(value any) {
	p.log.Error().Str("panic", fmt.Sprint(value)).Bytes("stack", debug.Stack()).
		Msg("taking a message panicked")
	p.endInput(errInternal)
}

// cancelled handles notifications/cancelled: the handler's context ends and no response is sent ("Receivers
// of a cancellation notification SHOULD ... Not send a response for the cancelled request"). Ids that are not
// in flight are ignored.
func (p *peer) cancelled(params []byte) {
	var c mcp.CancelledParams
	if rawjson.Unmarshal(params, &c) != nil || checkID(c.RequestID) != "" {
		p.log.Debug().Msg("ignoring notifications/cancelled without a usable requestId")
		return
	}
	p.incoming.cancel(idKey(c.RequestID))
}

// answer answers a request that was not started.
func (p *peer) answer(c *call, result any, failure *Error) {
	if failure == nil {
		failure = p.incoming.check(c)
	}
	p.reply(c.w, c.batch, c.head, c.id, result, failure)
	c.w.release()
}

// reply answers a message that takes no slot. It is dropped while too much is unread.
func (p *peer) reply(w *writer, b *batch, head, id []byte, result any, failure *Error) {
	e := newEncoder()
	defer e.free()
	if err := e.response(head, id, result, failure, nil); err != nil {
		p.log.Error().Err(err).Msg("a result cannot be encoded")
	}
	if b != nil {
		b.add(e.buf.Bytes(), 0, After{})
		return
	}
	_ = w.try(e.buf.Bytes()) // fails only when the reader has closed
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
