package rpc

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// maxID bounds ids and session ids, in bytes as written: every line that belongs to a request repeats them.
const maxID = 4 << 10

// message is a message from the other side: its top-level members as they stand in the line; nil = absent.
// They are valid until the line has been taken. With an id and a method it is a request, without an id a
// notification, without a method a response.
type message struct {
	jsonrpc, id, method, params, result, err, sessionID []byte

	w       *writer // writes the answer
	batch   *batch  // the batch it came in; nil if it came alone
	problem *Error  // why it is not a valid message
}

// maxValues bounds the values in a line, nested ones included: millions of values of a byte or two each would
// take hundreds of MiB once decoded.
const maxValues = 100_000

// parseError describes what is wrong with a line that rawjson.Scan has refused.
func parseError(line []byte) string {
	if !utf8.Valid(line) {
		return "parse error: not valid UTF-8"
	}
	var raw json.RawMessage
	return fmt.Sprintf("parse error: %v", json.Unmarshal(line, &raw))
}

// parseMessage reads a message from a valid JSON value in a single pass.
func parseMessage(value []byte) (m message) {
	problem := ""
	if value[0] != '{' {
		m.problem = Errorf(mcp.CodeInvalidRequest, "a message is a JSON object")
		return m
	}
	for it := rawjson.Over(value); it.Next(); {
		var to *[]byte
		switch string(it.Name) {
		case "jsonrpc":
			to = &m.jsonrpc
		case "id":
			to = &m.id
		case "method":
			to = &m.method
		case "params":
			to = &m.params
		case "result":
			to = &m.result
		case "error":
			to = &m.err
		case "sessionId":
			to = &m.sessionID
		default:
			continue
		}
		if *to != nil {
			problem = `"` + string(it.Name) + `" is there twice`
			it.Value = []byte{} // neither value is usable; answerID and head still work
		}
		*to = it.Value
	}
	if problem == "" {
		problem = m.check()
	}
	if problem != "" {
		m.problem = Errorf(mcp.CodeInvalidRequest, "%s", problem)
	}
	return m
}

// check returns the reason why the message is invalid, "" if it is valid.
func (m *message) check() string {
	switch {
	case m.jsonrpc == nil:
		return `"jsonrpc" is missing`
	case rawjson.Unquote(m.jsonrpc) != "2.0":
		return `"jsonrpc" is not "2.0"`
	case m.method == nil && m.result == nil && m.err == nil:
		return `it has no "method", no "result" and no "error"`
	case m.method == nil && m.result != nil && m.err != nil:
		return `a response has either "result" or "error"`
	case m.method == nil && m.err != nil && (m.id == nil || m.id[0] == 'n'):
		return "" // the other side could not read a message (JSON-RPC 2.0, section 5)
	case m.method == nil && m.id == nil:
		return `a response has an "id"`
	case m.method == nil && answeredID(m.id) != 0:
		return ""
	case m.method == nil:
	case m.result != nil || m.err != nil:
		return `a message with "method" has no "result" and no "error"`
	case m.method[0] != '"':
		return `"method" is not a string`
	case m.params != nil && m.params[0] != '{' && m.params[0] != '[':
		return `"params" is not an object`
	case m.id == nil:
		return ""
	}
	return checkID(m.id)
}

// answerID is the id for the answer to an invalid message, nil if there is no usable one. The id of a
// response is one of our own: sent back, it would answer a request of the client with the same number.
func (m *message) answerID() []byte {
	if m.id == nil || checkID(m.id) != "" || (m.method == nil && (m.result != nil || m.err != nil)) {
		return nil
	}
	return m.id
}

// Refusal encodes an error response without its newline, for a carrier that answers a request itself. An id
// that cannot be one is left out.
func Refusal(id []byte, failure *Error) []byte {
	if checkID(id) != "" {
		id = nil
	}
	e := newEncoder()
	defer e.free()
	// Fails only if Data cannot be encoded; then it is an internal error.
	_ = e.response(lineHead, id, nil, failure, nil)
	return bytes.Clone(bytes.TrimSuffix(e.buf.Bytes(), []byte("\n")))
}

// head is the beginning of every line that belongs to the message. Only a request with a sessionId gets it
// back: the official TypeScript client rejects unknown top-level members.
func (m *message) head() []byte {
	if m.sessionID == nil || checkID(m.sessionID) != "" {
		return lineHead
	}
	return slices.Clip(bytes.Join([][]byte{lineHead, m.sessionID}, []byte(`,"sessionId":`)))
}

// checkID returns the reason why a value cannot be an id, "" if it can: "The request ID MUST be a string or
// integer", "MUST NOT be null" (MCP, basic, Requests). The value is valid JSON, or a piece of an unchecked
// line.
func checkID(raw []byte) string {
	switch {
	case len(raw) > maxID:
		return fmt.Sprintf(`"id" is longer than %d bytes`, maxID)
	case len(raw) > 0 && json.Valid(raw) && utf8.Valid(raw) &&
		(raw[0] == '"' || raw[0] < 'A' && !bytes.ContainsAny(raw, ".eE")):
		// Numbers begin below "A".
		return ""
	}
	return `"id" is neither a string nor an integer`
}

// idKey returns the same key for equal ids: a string may be written with or without escapes.
func idKey(raw []byte) string {
	if raw[0] == '"' && bytes.IndexByte(raw, '\\') >= 0 {
		// No other id has this key: one without escapes has no quote inside.
		return `"` + rawjson.Unquote(raw) + `"`
	}
	return string(raw)
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
