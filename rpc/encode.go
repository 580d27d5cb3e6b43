package rpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

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
