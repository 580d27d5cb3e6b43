package rpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// maxID bounds ids and session ids, in bytes as written: they are given back on every line that belongs to a request.
const maxID = 4 << 10

// message is one of the other side's: its top-level members, as they stand in the line; nil = absent. They are valid until the next line
// is read. With an id and a method it is a request, without the one a notification, without the other a response.
type message struct {
	jsonrpc, id, method, params, result, err, sessionID []byte

	batch   *batch // it came in; nil if it came alone
	problem *Error // why it is none
}

// maxValues bounds the values in a line, those within others too: a byte or two each, millions of them would take
// hundreds of MiB once they are decoded.
const maxValues = 100_000

// parseError says what is wrong with a line that rawjson.Scan has refused.
func parseError(line []byte) string {
	if !utf8.Valid(line) {
		return "parse error: not valid UTF-8"
	}
	var raw json.RawMessage
	return fmt.Sprintf("parse error: %v", json.Unmarshal(line, &raw))
}

// takeApart reads a valid JSON value, once.
func takeApart(value []byte) (m message) {
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
			it.Value = []byte{} // neither of two values is usable; the message still has its answerID and head
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

// check says why it is not a message, "" if it is one.
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
		return "" // the other side could not read something (JSON-RPC 2.0, section 5)
	case m.method == nil && m.id == nil:
		return `a response has an "id"`
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

// answerID is the id that the answer to an invalid message carries, nil if there is no usable one.
// The id of a response is one of ours: sent back, it would answer some request of the client's with the same number.
func (m *message) answerID() []byte {
	if m.id == nil || checkID(m.id) != "" || (m.method == nil && (m.result != nil || m.err != nil)) {
		return nil
	}
	return m.id
}

// head is what every line that belongs to the message begins with. Only a request that names a session gets it back:
// "the official TypeScript client rejects unknown top-level members".
func (m *message) head() []byte {
	if m.sessionID == nil || checkID(m.sessionID) != "" {
		return lineHead
	}
	return slices.Clip(bytes.Join([][]byte{lineHead, m.sessionID}, []byte(`,"sessionId":`)))
}

// checkID says why a value cannot be an id, "" if it can: "The request ID MUST be a string or integer",
// "MUST NOT be null" (MCP, basic, Requests). The value is valid JSON, or a piece of a line that was never checked.
func checkID(raw []byte) string {
	switch {
	case len(raw) > maxID:
		return fmt.Sprintf(`"id" is longer than %d bytes`, maxID)
	case len(raw) > 0 && json.Valid(raw) && utf8.Valid(raw) && (raw[0] == '"' || raw[0] < 'A' && !bytes.ContainsAny(raw, ".eE")): // below "A" are the numbers
		return ""
	}
	return `"id" is neither a string nor an integer`
}

// idKey is what two ids have in common when they are the same: a string may be written with escapes.
func idKey(raw []byte) string {
	if raw[0] == '"' && bytes.IndexByte(raw, '\\') >= 0 {
		return `"` + rawjson.Unquote(raw) + `"` // no other id reads so: one without escapes has no quote inside
	}
	return string(raw)
}
