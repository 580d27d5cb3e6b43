package rpc

import (
	"encoding/json"
	"io"
	"reflect"
	"strconv"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// message is one message of the client. Its parts are valid until the next line is read.
type message struct {
	kind  kind
	part  envelope
	batch *batch
}

// stream is the jsonrpc2.ObjectStream of a session. The Conn on top of it closes the connection at the first malformed line,
// cannot hold every id and knows no batches, so it never sees the real messages: the stream reads and checks them,
// answers what is malformed itself, and hands the Conn a stand-in.
//
// The trap in this: [session.Handle] reads the real message from current, which holds only because the Conn calls Handle on
// the goroutine that called ReadObject, before it reads on. A jsonrpc2.AsyncHandler would break it.
type stream struct {
	s       *session
	started chan struct{} // closed when the session knows its Conn

	// Owned by the reader.
	lines   lineReader
	batch   *batch // being gone through, nil if none
	rest    rawjson.Elements
	current message
	standIn map[string]reflect.Value // decoded stand-ins by their text
}

func newStream(s *session, maxLine int) *stream {
	return &stream{
		s:       s,
		started: make(chan struct{}),
		lines:   lineReader{r: s.in, max: maxLine},
		standIn: map[string]reflect.Value{},
	}
}

// The stand-ins. Nothing of them is used: the Conn only has to see what kind of message it is.
const (
	aRequest      = `{"id":1,"method":"request"}`
	aNotification = `{"method":"notification"}`
)

// ReadObject gives the Conn the stand-in of the next good message. At the end of the input it waits for the session
// to be through with the requests in flight: the Conn drops everything as soon as it hears of the end.
func (st *stream) ReadObject(v any) error {
	<-st.started
	if id, ok := st.s.takenBack(); ok {
		return json.Unmarshal(standInResponse(id, true), v)
	}
	for {
		if err := st.next(); err != nil {
			st.s.endInput(err)
			close(st.s.spare)
			<-st.s.drained
			return io.EOF
		}
		switch st.current.kind {
		case request:
			return st.give(v, aRequest)
		case notification:
			return st.give(v, aNotification)
		case response:
			if number, failed, ok := st.s.answered(&st.current.part); ok {
				return json.Unmarshal(standInResponse(number, failed), v)
			}
		}
	}
}

// give sets v to the decoded stand-in. Decoding it costs more than all the rest of a request's way, so it is done once.
func (st *stream) give(v any, text string) error {
	to := reflect.ValueOf(v).Elem()
	decoded, ok := st.standIn[text]
	if !ok {
		if err := json.Unmarshal([]byte(text), v); err != nil {
			return err
		}
		decoded = reflect.New(to.Type()).Elem()
		decoded.Set(to)
		st.standIn[text] = decoded
	}
	to.Set(decoded)
	return nil
}

func standInResponse(number uint64, failed bool) []byte {
	b := strconv.AppendUint([]byte(`{"id":`), number, 10)
	if failed {
		return append(b, `,"error":{"code":0,"message":""}}`...)
	}
	return append(b, `,"result":{}}`...)
}

// next reads up to the next message that is not answered here.
func (st *stream) next() error {
	for {
		st.current.kind = invalid
		switch {
		case st.batch == nil:
			line, err := st.lines.next()
			switch {
			case err == errLineTooLong:
				st.refuse(lineHead, st.lines.longID(), mcp.CodeInvalidRequest, "message too long: the limit is "+strconv.Itoa(st.lines.max)+" bytes a line")
			case err != nil:
				return err
			default:
				st.takeLine(line)
			}
		case st.rest.Next():
			st.takeValue(st.rest.Value)
		default:
			st.batch.start()
			st.batch = nil
		}
		if st.current.kind != invalid {
			return nil
		}
	}
}

// takeLine makes a line the current message or, if it is a batch, begins to go through it. If it is invalid it is answered.
func (st *stream) takeLine(line []byte) {
	values, ok := rawjson.Scan(line)
	switch {
	case !ok:
		st.refuse(lineHead, nil, mcp.CodeParseError, parseError(line))
	case values > maxValues:
		var e envelope
		if line[0] == '{' {
			e, _ = split(line)
		}
		st.refuse(e.head(), e.answerID(), mcp.CodeInvalidRequest, "too many values in a message: the limit is "+strconv.Itoa(maxValues))
	case line[0] == '[':
		st.beginBatch(line)
	default:
		st.takeValue(line)
	}
}

// beginBatch begins to go through a batch.
func (st *stream) beginBatch(line []byte) {
	n := 0
	for it := rawjson.ElementsOf(line); n <= maxBatch && it.Next(); n++ {
	}
	switch v := st.s.peer.Version; {
	case v == nil || !v.Batches:
		st.refuse(lineHead, nil, mcp.CodeInvalidRequest, "batches are not served in this session")
	case n == 0:
		st.refuse(lineHead, nil, mcp.CodeInvalidRequest, "empty batch")
	case n > maxBatch:
		st.refuse(lineHead, nil, mcp.CodeInvalidRequest, "batch too long: the limit is "+strconv.Itoa(maxBatch)+" messages")
	case st.s.held.Load()+int64(st.s.w.unread()) > maxUnread:
		st.refuse(lineHead, nil, mcp.CodeBusy, "too many answers wait to be read: the limit for a batch is "+strconv.Itoa(maxUnread)+" bytes")
	default:
		st.batch, st.rest = &batch{w: st.s.w, held: &st.s.held, open: 1}, rawjson.ElementsOf(line)
	}
}

// takeValue makes a value the current message. If it is invalid it is answered.
func (st *stream) takeValue(value []byte) {
	st.current = message{batch: st.batch}
	if value[0] != '{' {
		st.refuse(lineHead, nil, mcp.CodeInvalidRequest, "a message is a JSON object")
		return
	}
	e, twice := split(value)
	if twice != "" {
		st.refuse(e.head(), e.answerID(), mcp.CodeInvalidRequest, `"`+twice+`" is there twice`)
		return
	}
	kind, problem := e.classify()
	if kind == invalid {
		st.refuse(e.head(), e.answerID(), mcp.CodeInvalidRequest, problem)
		return
	}
	st.current.kind, st.current.part = kind, e
}

// refuse answers the message at hand with an error.
func (st *stream) refuse(head, id []byte, code int, problem string) {
	st.s.log.Debug().Int("code", code).Str("problem", problem).Msg("refusing a message")
	st.s.reply(st.batch, head, id, nil, &Error{Code: code, Message: problem})
}

// WriteObject queues what the Conn sends: the requests of [Caller.Request].
func (st *stream) WriteObject(obj any) error {
	b, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	return st.s.w.queue(append(b, '\n'), 0)
}

// Close does nothing: the session ends reading and writing itself.
func (st *stream) Close() error { return nil }
