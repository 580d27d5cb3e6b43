package rpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"runnel/rpc/rawjson"
)

// maxID bounds ids and session ids, in bytes as written: they are given back on every line that belongs to a request.
const maxID = 4 << 10

// envelope is a message's top-level members, as they stand in the line; nil = absent.
type envelope struct {
	jsonrpc, id, method, params, result, err, session []byte
}

// kind is what a message is.
type kind uint8

const (
	invalid kind = iota
	request
	notification
	response
)

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

// split takes a valid JSON object apart, once. It returns the name of an envelope member that is there twice, "" if none is.
func split(object []byte) (e envelope, twice string) {
	it := rawjson.MembersOf(object)
	for it.Next() {
		to := e.field(it.Name)
		if to == nil {
			continue
		}
		if *to != nil {
			twice = string(it.Name)
			*to = []byte{} // neither of two values is usable; the envelope still has its answerID and head
			continue
		}
		*to = it.Value
	}
	return e, twice
}

// field is where the value of a member belongs, nil if the envelope has no such member.
func (e *envelope) field(name []byte) *[]byte {
	switch string(name) {
	case "jsonrpc":
		return &e.jsonrpc
	case "id":
		return &e.id
	case "method":
		return &e.method
	case "params":
		return &e.params
	case "result":
		return &e.result
	case "error":
		return &e.err
	case "sessionId":
		return &e.session
	}
	return nil
}

// classify says what a message is and, if it is invalid, why.
func (e *envelope) classify() (kind, string) {
	switch {
	case e.jsonrpc == nil:
		return invalid, `"jsonrpc" is missing`
	case rawjson.Unquote(e.jsonrpc) != "2.0":
		return invalid, `"jsonrpc" is not "2.0"`
	case e.method == nil && e.result == nil && e.err == nil:
		return invalid, `it has no "method", no "result" and no "error"`
	case e.method == nil:
		return e.classifyResponse()
	case e.result != nil || e.err != nil:
		return invalid, `a message with "method" has no "result" and no "error"`
	case e.method[0] != '"':
		return invalid, `"method" is not a string`
	case e.params != nil && e.params[0] != '{' && e.params[0] != '[':
		return invalid, `"params" is not an object`
	case e.id == nil:
		return notification, ""
	}
	if problem := checkID(e.id); problem != "" {
		return invalid, problem
	}
	return request, ""
}

func (e *envelope) classifyResponse() (kind, string) {
	if e.result != nil && e.err != nil {
		return invalid, `a response has either "result" or "error"`
	}
	// An error without an id, or with null, means that the peer could not read something (JSON-RPC 2.0, section 5).
	if e.err != nil && (e.id == nil || e.id[0] == 'n') {
		return response, ""
	}
	if e.id == nil {
		return invalid, `a response has an "id"`
	}
	if problem := checkID(e.id); problem != "" {
		return invalid, problem
	}
	return response, ""
}

// answerID is the id that the answer to an invalid message carries, nil if there is no usable one.
// The id of a response is one of ours: sent back, it would answer some request of the client's with the same number.
func (e *envelope) answerID() []byte {
	if e.id == nil || checkID(e.id) != "" || (e.method == nil && (e.result != nil || e.err != nil)) {
		return nil
	}
	return e.id
}

// head is what every line that belongs to the message begins with. Only a request that names a session gets it back:
// "the official TypeScript client rejects unknown top-level members".
func (e *envelope) head() []byte {
	if e.session == nil || checkID(e.session) != "" {
		return lineHead
	}
	return slices.Clip(bytes.Join([][]byte{lineHead, e.session}, []byte(`,"sessionId":`)))
}

// checkID says why a value cannot be an id, "" if it can: "The request ID MUST be a string or integer",
// "MUST NOT be null" (MCP, basic, Requests). The value is valid JSON, or a piece of a line that was never checked.
func checkID(raw []byte) string {
	switch {
	case len(raw) > maxID:
		return fmt.Sprintf(`"id" is longer than %d bytes`, maxID)
	case len(raw) > 0 && raw[0] == '"' && json.Valid(raw) && utf8.Valid(raw):
		return ""
	case isInteger(raw):
		return ""
	}
	return `"id" is neither a string nor an integer`
}

func isInteger(raw []byte) bool {
	digits := bytes.TrimPrefix(raw, []byte("-"))
	for _, c := range digits {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(digits) == 1 || len(digits) > 1 && digits[0] != '0'
}

// idKey is what two ids have in common when they are the same: a string may be written with escapes.
func idKey(raw []byte) string {
	if raw[0] == '"' && bytes.IndexByte(raw, '\\') >= 0 {
		return `"` + rawjson.Unquote(raw) + `"` // no other id reads so: one without escapes has no quote inside
	}
	return string(raw)
}
