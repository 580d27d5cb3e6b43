package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	stdlog "log"
	"runtime/debug"
	"strconv"
	"unicode/utf8"

	"github.com/rs/zerolog"
	"github.com/sourcegraph/jsonrpc2"

	"runnel/internal/signal"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// peer is one end of a connection. It reads what the other side sends, matches answers with requests, and
// writes. Its role, server (session) or client ([Client]), decides how it treats a request.
//
// Requests and answers pass through a jsonrpc2.Conn, which reads them with ReadObject and calls Handle on the
// reading goroutine. Directly on the pipes, the Conn would close the connection at the first malformed line,
// and it knows no batches, no negative ids and no second answer to a request. So the Conn gets
//
//   - requests with their method and a number as the id. Under that number the peer keeps the other side's own id, byte for byte, and the
//     params, which would take the Conn's decoder ten times as long as all other work on them;
//   - the id of the first answer to a request of ours. The answer itself is kept with the request (see connAnswer).
//
// Notifications, which have no answer, bypass it. So do the replies (see [call.answer]).
type peer struct {
	role      role
	log       zerolog.Logger
	maxLine   int
	maxValues int               // in a line; 0 = any number
	anyBytes  bool              // bytes that are not UTF-8 are read as U+FFFD, as the official clients do
	eof       error             // the cause of input when the other side closes it
	onLine    func(line []byte) // gets each line that is JSON; may be nil

	w        *writer
	incoming incoming
	outgoing outgoing
	conn     *jsonrpc2.Conn
	started  chan struct{} // closed when conn is set
	sendTurn chan struct{} // holds a value while a request of ours waits for its turn; capacity 1

	input    context.Context // ends when nothing more arrives; its cause is the reason
	endInput context.CancelCauseFunc
	drained  chan struct{} // closed when the Conn may see the end of the input, which makes it forget all requests

	ctx    context.Context // parent of the handlers' contexts
	cancel context.CancelCauseFunc

	// Owned by the reader.
	lines   func() ([]byte, error) // returns the next line, valid until the next call; or errLineTooLong, with the line's id
	to      *writer                // the writer for answers to the current line
	batch   *batch                 // the current batch; nil if there is none, or if its answers are not collected
	rest    *rawjson.Walk          // the rest of the current array
	number  uint64                 // the number of the last request
	arrived map[uint64]*call       // requests that the Conn has, by number
}

// role is how a peer treats what it reads. The reader calls all of it, so nothing in it may wait.
type role interface {
	// request starts to answer a request: with [call.start] or [peer.answer].
	request(c *call)
	// notification gets a notification, which is valid until it returns.
	notification(m *message)
	// array gets an array of messages before the peer goes through it. The batch collects the answers; nil if
	// they are not collected.
	array(line []byte) (*batch, *Error)
	// refuse gets an invalid message, and its line if that was short enough to keep. If it was meant as an
	// answer, refuse returns an error for the request that waits for it, else nil.
	refuse(m *message, line []byte) *Error
}

// start starts reading and writing.
func (p *peer) start() {
	go p.w.run()
	silent := jsonrpc2.SetLogger(stdlog.New(io.Discard, "", 0)) // it logs nothing that a user can act on
	p.conn = jsonrpc2.NewConn(context.Background(), connStream{p}, connStream{p}, silent)
	close(p.started)
}

// newPeer makes a peer. The caller still has to set its role and ctx.
func newPeer(lines func() ([]byte, error), out Output, maxLine, maxInFlight int, log zerolog.Logger) *peer {
	p := &peer{log: log, eof: io.EOF, started: make(chan struct{}), sendTurn: make(chan struct{}, 1), drained: make(chan struct{}), lines: lines, maxLine: maxLine, arrived: map[uint64]*call{}}
	p.input, p.endInput = context.WithCancelCause(context.Background())
	p.incoming = incoming{max: maxInFlight, maxBytes: inFlightLines * int64(maxLine), cause: ErrCancelled, room: signal.NewWake(), byID: map[string]*call{}, streams: map[string]bool{}}
	p.outgoing = outgoing{log: log, waiting: map[uint64]*request{}}
	p.w = newWriter(out, p.incoming.freeSlots, log)
	p.to = p.w
	return p
}

// inFlightLines bounds the params of all requests in flight, in units of the longest line.
const inFlightLines = 4

// connStream is the side of a peer that the Conn sees.
type connStream struct{ *peer }

// ReadObject gives the Conn the next request or answer, and handles everything else itself. At the end of the
// input it waits until what the Conn would forget is no longer needed.
func (p connStream) ReadObject(v any) (err error) {
	defer func() {
		if r := recover(); r != nil {
			p.log.Error().Str("panic", fmt.Sprint(r)).Bytes("stack", debug.Stack()).Msg("taking a message panicked")
			p.endInput(errInternal)
			err = io.EOF
		}
	}()
	<-p.started
	text := p.outgoing.withdrawnAnswer()
	for text == nil {
		m, line, err := p.next()
		if err != nil {
			p.endInput(err)
			<-p.drained
			return io.EOF
		}
		if text = p.take(&m, line); text == nil { // a flood of notifications must not hold up the made-up answers
			text = p.outgoing.withdrawnAnswer()
		}
	}
	return v.(json.Unmarshaler).UnmarshalJSON(text)
}

// take dispatches a message. It returns what the Conn gets for it, nil for nothing.
func (p *peer) take(m *message, line []byte) []byte {
	switch {
	case m.problem != nil:
		p.log.Debug().Int("code", m.problem.Code).Str("problem", m.problem.Message).Msg("refusing a message")
		if failure := p.role.refuse(m, line); failure != nil {
			return p.outgoing.take(m.id, Response{Err: failure})
		}
		return nil
	case m.method == nil:
		r := Response{Result: m.result}
		if m.err != nil {
			r.Err = readError(m.err)
		}
		return p.outgoing.take(m.id, r)
	case m.id == nil:
		p.role.notification(m)
		return nil
	}
	p.number++
	p.arrived[p.number] = newCall(p, m)
	text := strconv.AppendUint(append(make([]byte, 0, 64), `{"id":`...), p.number, 10)
	return append(append(append(text, `,"method":`...), m.method...), '}')
}

// newCall copies what a request needs out of the line.
func newCall(p *peer, m *message) *call {
	raw := append(append(make([]byte, 0, len(m.id)+len(m.params)), m.id...), m.params...)
	p.to.hold()
	c := &call{incoming: &p.incoming, log: &p.log, parent: p.ctx, w: p.to, id: raw[:len(m.id):len(m.id)], key: idKey(m.id), head: m.head(), batch: m.batch}
	if m.params != nil {
		c.params = raw[len(m.id):]
	}
	return c
}

// Handle gets a request back from the Conn.
func (p connStream) Handle(_ context.Context, _ *jsonrpc2.Conn, req *jsonrpc2.Request) {
	c := p.arrived[req.ID.Num]
	delete(p.arrived, req.ID.Num)
	c.method = req.Method
	p.role.request(c)
}

// WriteObject queues what the Conn sends: our own requests, which can be answered from now on.
func (p connStream) WriteObject(obj any) error {
	b, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	p.outgoing.sent(p.outgoing.sending)
	return p.outgoing.sending.w.now(append(b, '\n'))
}

// Close does nothing: the roles end reading and writing themselves.
func (p connStream) Close() error { return nil }

// next reads the next message. line is its text, nil if that was too long to keep.
func (p *peer) next() (m message, line []byte, err error) {
	for {
		if p.rest != nil {
			if p.rest.Next() {
				m = parseMessage(p.rest.Value)
				m.batch = p.batch
				return m, p.rest.Value, nil
			}
			if p.batch != nil {
				p.batch.start()
			}
			p.batch, p.rest = nil, nil
		}
		line, err = p.lines()
		switch {
		case err == errLineTooLong:
			m.id = line
			m.problem = Errorf(mcp.CodeInvalidRequest, "message too long: the limit is %d bytes a line", p.maxLine)
			return m, nil, nil
		case err == io.EOF:
			return m, nil, p.eof
		case err != nil:
			return m, nil, err
		case p.input.Err() != nil: // the other side has been abandoned
			continue
		}
		values, ok := rawjson.Scan(line)
		if !ok && p.anyBytes && !utf8.Valid(line) {
			line = bytes.ToValidUTF8(line, []byte("\uFFFD"))
			values, ok = rawjson.Scan(line)
		}
		if !ok {
			m.problem = Errorf(mcp.CodeParseError, "%s", parseError(line))
			return m, line, nil
		}
		if p.onLine != nil {
			p.onLine(line)
		}
		switch {
		case p.maxValues > 0 && values > p.maxValues:
			m = parseMessage(line)
			m.problem = Errorf(mcp.CodeInvalidRequest, "too many values in a message: the limit is %d", p.maxValues)
		case line[0] == '[':
			if p.batch, m.problem = p.role.array(line); m.problem == nil {
				rest := rawjson.Over(line)
				p.rest = &rest
				continue
			}
		default:
			m = parseMessage(line)
		}
		return m, line, nil
	}
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
	p.reply(c.batch, c.head, c.id, result, failure)
	c.w.release()
}

// reply answers a message that takes no slot. It is dropped while too much is unread.
func (p *peer) reply(b *batch, head, id []byte, result any, failure *Error) {
	e := newEncoder()
	defer e.free()
	if err := e.response(head, id, result, failure, nil); err != nil {
		p.log.Error().Err(err).Msg("a result cannot be encoded")
	}
	if b != nil {
		b.add(e.buf.Bytes(), 0, After{})
		return
	}
	_ = p.to.try(e.buf.Bytes()) // fails only when the reader has closed
}
