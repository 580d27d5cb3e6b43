package rpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"runnel/rpc/rawjson"
)

// lineHead is what a line begins with that belongs to no session id.
var lineHead = slices.Clip([]byte(`{"jsonrpc":"2.0"`))

// keepBuffer is the largest buffer kept for reuse after a long line or a burst of output, so that one does not hold memory for ever.
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

// newEncoder is an empty encoder.
func newEncoder() *encoder { return encoders.Get().(*encoder) }

func (e *encoder) free() {
	if e.buf.Cap() <= keepBuffer {
		e.buf.Reset()
		encoders.Put(e)
	}
}

// member appends `,"name":value`. After an error nothing of it stands in the line.
func (e *encoder) member(name string, value any) error {
	if encoded, ok := value.(Encoded); ok {
		e.raw(name, encoded)
		return nil
	}
	begin := e.buf.Len()
	e.raw(name, nil)
	if err := e.json.Encode(value); err != nil {
		e.buf.Truncate(begin)
		return err
	}
	e.buf.Truncate(e.buf.Len() - 1) // Encode ends with a newline
	return nil
}

// raw appends `,"name":value` for a value that is JSON already. The first member of an object has no comma.
func (e *encoder) raw(name string, value []byte) {
	if b := e.buf.Bytes(); b[len(b)-1] != '{' {
		e.buf.WriteByte(',')
	}
	e.buf.WriteByte('"')
	e.buf.WriteString(name)
	e.buf.WriteString(`":`)
	e.buf.Write(value)
}

// response encodes a response with its line end. dress adds to the result, which begins there in the buffer, what the era asks of it;
// nil: nothing. If the result cannot be encoded the response is an internal error, and the cause is returned too.
func (e *encoder) response(head, id []byte, result any, failure *Error, dress func(e *encoder, begin int) error) (err error) {
	e.buf.Write(head)
	if id != nil {
		e.raw("id", id)
	}
	end := e.buf.Len()
	if result == nil {
		result = Encoded("{}")
	}
	if failure != nil {
		err = e.member("error", failure)
	} else if err = e.member("result", result); err == nil && dress != nil {
		err = dress(e, end+len(`,"result":`))
	}
	if err != nil {
		e.buf.Truncate(end)
		_ = e.member("error", errInternal)
	}
	e.buf.WriteString("}\n")
	return err
}

// notify hands the line of a notification to write.
func notify(head []byte, method string, params any, write func(line []byte) error) error {
	e := newEncoder()
	defer e.free()
	e.buf.Write(head)
	e.raw("method", rawjson.Encode(method))
	if params != nil {
		if err := e.member("params", params); err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
	}
	e.buf.WriteString("}\n")
	return write(e.buf.Bytes())
}
