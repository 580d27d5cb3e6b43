package rpc

import (
	"bytes"
	"context"
	"fmt"
	"runtime/debug"
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
	c := newCall(p, m)
	c.method = rawjson.Unquote(m.method)
	p.role.request(c)
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
