package rpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"runnel/internal/shorten"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// lineHead is the beginning of every line that has no sessionId.
var lineHead = slices.Clip([]byte(`{"jsonrpc":"2.0"`))

// keepBuffer is the largest buffer that is kept for reuse: one long line must not hold its memory for ever.
const keepBuffer = 1 << 20

// encoder builds one line. Text is not escaped for HTML, which would make "<" six bytes long.
type encoder struct {
	buf  bytes.Buffer
	json *json.Encoder
}

var encoders = sync.Pool{New: func() any {
	e := &encoder{}
	e.json = json.NewEncoder(&e.buf)
	e.json.SetEscapeHTML(false)
	return e
}}

// newEncoder returns an empty encoder.
func newEncoder() *encoder { return encoders.Get().(*encoder) }

func (e *encoder) free() {
	if e.buf.Cap() <= keepBuffer {
		e.buf.Reset()
		encoders.Put(e)
	}
}

// member appends `,"name":value`. If it fails, the line is as before.
func (e *encoder) member(name string, value any) error {
	if encoded, ok := value.(Encoded); ok {
		e.raw(name, encoded)
		return nil
	}
	begin := e.buf.Len()
	e.raw(name, nil)
	if err := e.value(value); err != nil {
		e.buf.Truncate(begin)
		return err
	}
	return nil
}

// value appends a value. One that writes itself may hold JSON with line ends, such as a command's, which a
// line must not have.
func (e *encoder) value(value any) error {
	own, ok := value.(interface{ WriteJSON(to *bytes.Buffer) error })
	if !ok {
		if err := e.json.Encode(value); err != nil {
			return err
		}
		e.buf.Truncate(e.buf.Len() - 1) // Encode ends with a newline
		return nil
	}
	begin := e.buf.Len()
	if err := own.WriteJSON(&e.buf); err != nil {
		return err
	}
	if written := e.buf.Bytes()[begin:]; bytes.IndexByte(written, '\n') >= 0 ||
		bytes.IndexByte(written, '\r') >= 0 {
		written = bytes.Clone(written)
		e.buf.Truncate(begin)
		return json.Compact(&e.buf, written)
	}
	return nil
}

// raw appends `,"name":value` for a value that is already JSON. The first member of an object gets no comma.
func (e *encoder) raw(name string, value []byte) {
	if b := e.buf.Bytes(); b[len(b)-1] != '{' {
		e.buf.WriteByte(',')
	}
	e.buf.WriteByte('"')
	e.buf.WriteString(name)
	e.buf.WriteString(`":`)
	e.buf.Write(value)
}

// response encodes a response with its newline. dress, if set, adds what the era requires of the result that
// begins at begin; a bare result has none of it yet. If the result cannot be encoded, the response is an
// internal error, and the cause is returned too.
func (e *encoder) response(head, id []byte, result any, failure *Error,
	dress func(e *encoder, begin int, bare bool) error) (err error) {
	e.buf.Write(head)
	if id != nil {
		e.raw("id", id)
	}
	end := e.buf.Len()
	if result == nil {
		result = Encoded("{}")
	}
	_, bare := result.(Encoded)
	if failure != nil {
		err = e.member("error", failure)
	} else if err = e.member("result", result); err == nil && dress != nil {
		err = dress(e, end+len(`,"result":`), bare)
	}
	if err != nil {
		e.buf.Truncate(end)
		_ = e.member("error", errInternal)
	}
	e.buf.WriteString("}\n")
	return err
}

// notify encodes a notification and passes its line to write.
func notify(head []byte, method string, params any, write func(line []byte) error) error {
	return ask(head, nil, method, params, write)
}

// ask is notify for a request with an id.
func ask(head, id []byte, method string, params any, write func(line []byte) error) error {
	e := newEncoder()
	defer e.free()
	e.buf.Write(head)
	if id != nil {
		e.raw("id", id)
	}
	e.raw("method", rawjson.Encode(method))
	if params != nil {
		if err := e.member("params", params); err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
	}
	e.buf.WriteString("}\n")
	return write(e.buf.Bytes())
}

// Encoded is a result that is already JSON: a valid, compact object without the members _meta and resultType.
// It is written unchanged, and both members are added where the era requires them. Return it where one result
// answers many requests, or encoding/json is too slow.
type Encoded []byte

// MarshalJSON implements json.Marshaler.
func (e Encoded) MarshalJSON() ([]byte, error) { return e, nil }

// After is a handler's result with something to do afterwards. Return it where something must not reach the
// wire before the answer, such as the output of a task before its handle.
type After struct {
	Result any
	Mark   string // precedes the response (see Caller.Marks)
	// Do runs on the handler's goroutine as soon as the response is queued: whatever Do writes or starts
	// comes after the response on the wire.
	Do func()
	// Drop, if set, runs instead of Do if the response is not sent: the client cancelled the request, or the
	// output is gone.
	Drop func()
}

// settle runs what follows the response.
func (a *After) settle(sent bool) {
	switch {
	case sent && a.Do != nil:
		a.Do()
	case !sent && a.Drop != nil:
		a.Drop()
	}
}

// Error is an error that reaches the client with its own code (JSON-RPC 2.0, section 5.1). Any other error
// from a handler is logged, and the client gets -32603 "internal error".
type Error struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"` // a json.RawMessage in an error from the other side
}

// maxMessage bounds the message of an error, in bytes: it may quote something as long as a line.
const maxMessage = 4 << 10

// Errorf makes an Error from a code of package mcp and a formatted message, which is cut at 4 KiB. A handler
// returns it for mistakes of the client, and for anything that the client can do something about.
func Errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: shorten.Clip(fmt.Sprintf(format, args...), maxMessage)}
}

// Error returns the message with its code.
func (e *Error) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }

var (
	// ErrClosed is returned by writes to a session that has ended, and by requests to a side that can no
	// longer answer. Test for it with errors.Is: it need not be reported.
	ErrClosed = errors.New("session is closed")

	// ErrCancelled is the cause of a request's context after the client's notifications/cancelled. Compare it
	// with context.Cause where a call that the client cancelled is treated differently from one that the
	// server ended.
	ErrCancelled = errors.New("cancelled by the client")

	// ErrShutdown is the cause of a request's context when the server stops. Compare it with context.Cause
	// where work must go on elsewhere.
	ErrShutdown = errors.New("server is shutting down")
)

var errInternal = &Error{Code: mcp.CodeInternalError, Message: "internal error"}
