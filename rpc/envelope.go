package rpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
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

// checkJSON says what is wrong with a line as JSON text, "" if nothing is.
// encoding/json refuses nesting above 10,000 levels, so everything behind this may recurse.
func checkJSON(line []byte) string {
	if !utf8.Valid(line) {
		return "parse error: not valid UTF-8"
	}
	if json.Valid(line) {
		return ""
	}
	var raw json.RawMessage
	return fmt.Sprintf("parse error: %v", json.Unmarshal(line, &raw))
}

// split takes a valid JSON object apart, once. It returns the name of an envelope member that is there twice, "" if none is.
func split(object []byte) (e envelope, twice string) {
	it := members{rest: object[1:]}
	for it.next() {
		var to *[]byte
		switch string(it.name) {
		case "jsonrpc":
			to = &e.jsonrpc
		case "id":
			to = &e.id
		case "method":
			to = &e.method
		case "params":
			to = &e.params
		case "result":
			to = &e.result
		case "error":
			to = &e.err
		case "sessionId":
			to = &e.session
		default:
			continue
		}
		if *to != nil {
			twice = string(it.name)
		}
		*to = it.value
	}
	return e, twice
}

// classify says what a message is and, if it is invalid, why.
func (e *envelope) classify() (kind, string) {
	switch {
	case e.jsonrpc == nil:
		return invalid, `"jsonrpc" is missing`
	case unquote(e.jsonrpc) != "2.0":
		return invalid, `"jsonrpc" is not "2.0"`
	case e.method == nil && e.result == nil && e.err == nil:
		return invalid, `"method" is missing`
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
	// An error without an id, or with null, tells that the peer could not read something (JSON-RPC 2.0, section 5).
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
		b, _ := json.Marshal(unquote(raw))
		return string(b)
	}
	return string(raw)
}

// unquote returns the text of a JSON string, "" for anything else.
func unquote(raw []byte) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	var s string
	_ = json.Unmarshal(raw, &s)
	return s
}

// members walks over the members of a JSON object known to be valid, without recursion and without copying.
type members struct {
	rest  []byte // behind the brace or the last value
	name  []byte // unescaped
	value []byte
}

func (m *members) next() bool {
	m.rest = skipBlanks(m.rest)
	if m.rest[0] == ',' {
		m.rest = skipBlanks(m.rest[1:])
	}
	if m.rest[0] == '}' {
		return false
	}
	n := stringLen(m.rest)
	if m.name = m.rest[1 : n-1]; bytes.IndexByte(m.name, '\\') >= 0 {
		m.name = []byte(unquote(m.rest[:n]))
	}
	m.rest = skipBlanks(m.rest[n:])
	m.rest = skipBlanks(m.rest[1:]) // the colon
	n = valueLen(m.rest)
	m.value, m.rest = m.rest[:n], m.rest[n:]
	return true
}

// elements walks over the elements of a JSON array known to be valid.
type elements struct {
	rest  []byte // behind the bracket or the last value
	value []byte
}

func (e *elements) next() bool {
	e.rest = skipBlanks(e.rest)
	if e.rest[0] == ',' {
		e.rest = skipBlanks(e.rest[1:])
	}
	if e.rest[0] == ']' {
		return false
	}
	n := valueLen(e.rest)
	e.value, e.rest = e.rest[:n], e.rest[n:]
	return true
}

func skipBlanks(b []byte) []byte {
	i := 0
	for b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n' {
		i++
	}
	return b[i:]
}

// valueLen is the length of the valid JSON value that b begins with.
func valueLen(b []byte) int {
	switch b[0] {
	case '"':
		return stringLen(b)
	case '{', '[':
		depth := 0
		for i := 0; ; i++ {
			switch b[i] {
			case '"':
				i += stringLen(b[i:]) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
	}
	return bytes.IndexAny(b, ",]} \t\r\n")
}

// stringLen is the length of the JSON string that b begins with, quotes included.
func stringLen(b []byte) int {
	for i := 1; ; i++ {
		i += bytes.IndexByte(b[i:], '"')
		escapes := 0
		for b[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
}
