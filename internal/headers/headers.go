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
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"runnel/rpc/rawjson"
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

// Argument is an argument of a tool that a header repeats.
type Argument struct {
	Path   []string // the names of properties that lead to it
	Header string   // the name of its header
}

// Value returns the argument of a call as text, for Encode. It reports false if there is none.
func (a *Argument) Value(arguments []byte) (text string, ok bool) {
	for _, step := range a.Path {
		arguments = rawjson.Member(arguments, step)
	}
	return primitive(arguments)
}

// Arguments returns the arguments in a tool's inputSchema that have an x-mcp-header ("Schema Extension"). The
// error describes one that is not valid; such arguments are not in the list.
func Arguments(schema []byte) (list []Argument, err error) {
	if !strings.Contains(string(schema), `"x-mcp-header"`) {
		return nil, nil
	}
	var walk func(schema any, path []string, reachable bool)
	walk = func(schema any, path []string, reachable bool) {
		if elements, ok := schema.([]any); ok {
			for _, e := range elements {
				walk(e, path, false)
			}
		}
		object, ok := schema.(map[string]any)
		if !ok {
			return
		}
		if header, ok := object["x-mcp-header"]; ok {
			name, _ := header.(string)
			kind, _ := object["type"].(string)
			switch {
			case !IsToken(name):
				err = fmt.Errorf("%q cannot be a header's name", name)
			case !reachable || len(path) == 0 ||
				!slices.Contains([]string{"string", "integer", "boolean"}, kind):
				err = errors.New("it is not at a string, integer or boolean that is reached through " +
					"properties alone")
			case slices.ContainsFunc(list,
				func(a Argument) bool { return strings.EqualFold(a.Header, Param+name) }):
				err = fmt.Errorf("there are two of %s", name)
			default:
				list = append(list, Argument{slices.Clone(path), Param + name})
			}
		}
		for key, value := range object {
			properties, ok := value.(map[string]any)
			switch {
			case key == "properties" && ok:
				for name, property := range properties {
					walk(property, append(path[:len(path):len(path)], name), reachable)
				}
			case key != "const" && key != "enum" && key != "default" && key != "examples":
				// These hold values, not schemas.
				walk(value, path, false)
			}
		}
	}
	var decoded any
	if json.Unmarshal(schema, &decoded) != nil {
		return nil, nil
	}
	walk(decoded, nil, true)
	return list, err
}

// primitive returns a value as text for a header ("Type conversion"). It reports false for a value that has
// none.
func primitive(value []byte) (text string, ok bool) {
	switch {
	case len(value) == 0 || value[0] == 'n' || value[0] == '{' || value[0] == '[':
		return "", false
	case value[0] == '"':
		return rawjson.Unquote(value), true
	case strings.ContainsAny(string(value), ".eE") && value[0] < 'a': // an integer may be written as 1.0
		if f, err := strconv.ParseFloat(string(value), 64); err == nil && f == math.Trunc(f) &&
			math.Abs(f) < 1<<53 {
			return strconv.FormatInt(int64(f), 10), true
		}
	}
	return string(value), true
}
