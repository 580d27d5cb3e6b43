// Package headers has what both sides of Streamable HTTP must agree on: the headers that a request has beside
// its body, and how they repeat values of the body
// (https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http, "Request
// Metadata").
// The client writes them, the server compares them with the body.
//
// It has no goroutines and no locks.
package headers

import (
	"encoding/base64"
	"strings"
)

// The names of the headers.
const (
	Version = "Mcp-Protocol-Version"
	Session = "Mcp-Session-Id" // until 2025-11-25
	Method  = "Mcp-Method"     // since 2026-07-28, as the next two
	Name    = "Mcp-Name"
	Param   = "Mcp-Param-"  // begins the header of an argument
	Hops    = "Runnel-Hops" // how many runnels a request has passed through

	Forwarded = "Runnel-Forwarded" // another front of the same state has passed the request on
)

// Named are the members of params that Name repeats, by method ("Standard Request Headers"; for tasks
// SEP-2663).
var Named = map[string]string{
	"tools/call": "name", "prompts/get": "name", "resources/read": "uri",
	"tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId",
}

// These enclose a value in base64 ("Value Encoding").
const begin, end = "=?base64?", "?="

// Encode returns a text as the value of Name or of an argument's header.
func Encode(text string) string {
	plain := strings.Trim(text, " \t") == text && !strings.HasPrefix(text, begin)
	for i := 0; plain && i < len(text); i++ {
		plain = text[i] >= ' ' && text[i] <= '~' || text[i] == '\t'
	}
	if plain {
		return text
	}
	return begin + base64.StdEncoding.EncodeToString([]byte(text)) + end
}

// Decode returns the text of such a value. It reports false if the base64 is not valid.
func Decode(value string) (text string, ok bool) {
	encoded, begins := strings.CutPrefix(value, begin)
	encoded, ends := strings.CutSuffix(encoded, end)
	if !begins || !ends {
		return value, true
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(encoded)
	return string(raw), err == nil
}

// IsValue reports whether a text can be the value of a header (RFC 9110, 5.5).
func IsValue(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// IsToken reports whether a text can be the name of a header (RFC 9110, 5.6.2). httpguts has this function,
// but brings a module for the names of hosts.
func IsToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') &&
			!strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}
