package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	stdlog "log"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/sourcegraph/jsonrpc2"

	"runnel/rpc/mcp"
)

// conn is a peer's connection over two pipes: a jsonrpc2.Conn, which dispatches the other side's requests and
// correlates our own with their answers. This file is all that knows it. A carrier's lines do not pass it
// ([Session]).
//
//	in ─ lineReader ─ peer.take ─┬─ a request ─▶ Conn ─ Handle ─▶ role.request
//	                             └─ an answer ─▶ Conn ─▶ the sender, which waits in peer.send
//	out ◀─ writer ◀─ WriteObject ◀─ Conn ◀─ DispatchCall ◀─ peer.send
//
// Directly on the pipes, the Conn would close the connection at the first malformed line, and it knows no
// batches, no negative ids and no second answer to a request. It reads only JSON, and decodes that more than
// once: a call of 100 bytes costs 63 allocations, one of 2 KiB 676 and fifty times the time, and a result of
// 16 MiB hundreds of MiB. So it gets
//
//   - a request that comes alone, with its method and a number as its id: 28 allocations, 4 µs. Under that
//     number the other side's own id, byte for byte, and the params are kept (arrived);
//   - the id of the first answer to a request of ours: 17 allocations. The answer is kept in the request.
//
// Everything else bypasses it: notifications, which have no answer; the members of an array; and replies
// ([call.answer]).
type conn struct {
	*peer
	lines *lineReader
	eof   error // the cause of peer.input when the other side closes it

	rpc     *jsonrpc2.Conn
	started chan struct{} // closed when rpc is set
	// closed when the Conn may see the end of the input, which makes it forget all requests.
	drained chan struct{}

	sending *request // owned by the sender, which holds outgoing.turn

	// Owned by the reader.
	number  uint64           // of the last request
	arrived map[uint64]*call // requests that the Conn has, by number

	due     atomic.Int32 // len(answers)
	mu      sync.Mutex
	answers []uint64 // requests of ours whose answer the Conn gets next
}

func newConn(p *peer, in io.Reader, eof error) *conn {
	return &conn{peer: p, lines: newLineReader(in, p.maxLine), eof: eof, started: make(chan struct{}),
		drained: make(chan struct{}), arrived: map[uint64]*call{}}
}

// read starts reading.
func (c *conn) read() {
	silent := jsonrpc2.SetLogger(stdlog.New(io.Discard, "", 0)) // it logs nothing that a user can act on
	c.rpc = jsonrpc2.NewConn(context.Background(), c, c, silent)
	close(c.started)
}

// ReadObject gives the Conn the next request or answer. At the end of the input it waits until what the Conn
// would forget is no longer needed.
func (c *conn) ReadObject(v any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			c.panicked(p)
			err = io.EOF
		}
	}()
	<-c.started
	for {
		if c.due.Load() > 0 {
			c.mu.Lock()
			id := c.answers[0]
			c.answers = c.answers[1:]
			c.due.Add(-1)
			c.mu.Unlock()
			return v.(json.Unmarshaler).UnmarshalJSON(append(strconv.AppendUint([]byte(`{"id":`), id, 10),
				`,"result":true}`...))
		}
		line, err := c.lines.next()
		switch {
		case err == errLineTooLong:
			problem := Errorf(mcp.CodeInvalidRequest,
				"message too long: the limit is %d bytes a line", c.maxLine)
			c.dispatch(&message{w: c.w, id: line, problem: problem}, nil)
		case err != nil:
			if err == io.EOF {
				err = c.eof
			}
			c.endInput(err)
			<-c.drained
			return io.EOF
		case c.input.Err() != nil: // the other side has been abandoned
		default:
			m, request := c.take(line, c.w)
			if !request {
				continue
			}
			c.number++
			c.arrived[c.number] = c.newCall(&m)
			text := strconv.AppendUint(append(make([]byte, 0, 64), `{"id":`...), c.number, 10)
			return v.(json.Unmarshaler).UnmarshalJSON(append(append(append(text, `,"method":`...),
				m.method...), '}'))
		}
	}
}

// Handle gets a request back from the Conn.
func (c *conn) Handle(_ context.Context, _ *jsonrpc2.Conn, req *jsonrpc2.Request) {
	r := c.arrived[req.ID.Num]
	delete(c.arrived, req.ID.Num)
	r.method = req.Method
	c.role.request(r)
}

// call sends a request of ours through the Conn. wait waits for its first answer.
func (c *conn) call(ctx context.Context, req *request) (wait func(context.Context) error, err error) {
	c.sending = req
	opts := []jsonrpc2.CallOption{jsonrpc2.PickID(jsonrpc2.ID{Num: req.id})}
	if _, session, ok := bytes.Cut(req.head, []byte(`,"sessionId":`)); ok {
		opts = append(opts, jsonrpc2.ExtraField("sessionId", json.RawMessage(session)))
	}
	waiter, err := c.rpc.DispatchCall(ctx, req.method, req.params, opts...)
	return func(ctx context.Context) error { return closed(waiter.Wait(ctx, nil)) }, closed(err)
}

// closed puts this package's ErrClosed in the place of the Conn's.
func closed(err error) error {
	if errors.Is(err, jsonrpc2.ErrClosed) {
		return ErrClosed
	}
	return err
}

// WriteObject queues what the Conn sends: our own requests. They can be answered from now on; an earlier
// answer would be dropped by the Conn, and the sender would wait for ever.
func (c *conn) WriteObject(obj any) error {
	b, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	c.outgoing.add(c.sending)
	return c.sending.w.now(append(b, '\n'))
}

// Close does nothing: the roles end reading and writing themselves.
func (c *conn) Close() error { return nil }

// deliver lets the Conn get the answer to a request of ours: the first one or, if the request was withdrawn,
// none at all. The Conn forgets a request only with its answer, and the other side does not answer a
// cancelled one.
func (c *conn) deliver(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers = append(c.answers, id)
	c.due.Add(1)
}
