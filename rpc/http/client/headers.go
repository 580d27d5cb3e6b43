package httpclient

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

const (
	versionHeader = "Mcp-Protocol-Version"
	sessionHeader = "Mcp-Session-Id"
	methodHeader  = "Mcp-Method"
	nameHeader    = "Mcp-Name"
	paramHeader   = "Mcp-Param-"
)

// named are the members of params that Mcp-Name repeats ("Standard Request Headers"; for tasks SEP-2663).
var named = map[string]string{
	"tools/call": "name", "prompts/get": "name", "resources/read": "uri",
	"tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId",
}

// mirror is an argument of a tool that goes into a header, too.
type mirror struct {
	path   []string
	header string
}

// describe sets the headers of a line, and its era: "The Streamable HTTP transport mirrors selected JSON-RPC body fields into HTTP headers"
// (2026-07-28, "Request Metadata").
func (c *request) describe() {
	c.header.Set("Content-Type", jsonType)
	c.header.Set("Accept", jsonType+", "+eventStream)
	version := rawjson.StringMember(rawjson.Member(c.params, "_meta"), mcp.MetaProtocolVersion)
	if version == "" {
		return
	}
	c.stateless = true
	c.header.Set(versionHeader, version)
	c.header.Set(methodHeader, headerValue(c.method))
	if member, ok := named[c.method]; ok {
		c.header.Set(nameHeader, headerValue(rawjson.StringMember(c.params, member)))
	}
	if c.method != "tools/call" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.mirrored[rawjson.StringMember(c.params, "name")] {
		value := rawjson.Member(c.params, "arguments")
		for _, step := range m.path {
			value = rawjson.Member(value, step)
		}
		if text, ok := primitive(value); ok {
			c.header.Set(paramHeader+m.header, headerValue(text))
		}
	}
}

// primitive is a value as a header has it; not ok: it has none ("Type conversion").
func primitive(value []byte) (text string, ok bool) {
	switch {
	case len(value) == 0 || value[0] == 'n' || value[0] == '{' || value[0] == '[':
		return "", false
	case value[0] == '"':
		return rawjson.Unquote(value), true
	case strings.ContainsAny(string(value), ".eE") && value[0] < 'a': // an integer may be written as 1.0
		if f, err := strconv.ParseFloat(string(value), 64); err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return strconv.FormatInt(int64(f), 10), true
		}
	}
	return string(value), true
}

// headerValue makes a text fit into a header ("Value Encoding").
func headerValue(text string) string {
	const begin, end = "=?base64?", "?="
	plain := strings.Trim(text, " \t") == text && !strings.HasPrefix(text, begin)
	for i := 0; plain && i < len(text); i++ {
		plain = text[i] >= ' ' && text[i] <= '~' || text[i] == '\t'
	}
	if plain {
		return text
	}
	return begin + base64.StdEncoding.EncodeToString([]byte(text)) + end
}

// learn takes from a response what the next requests are to say. It returns the response without tools that cannot be called.
func (c *request) learn(response *http.Response, message []byte) []byte {
	result := rawjson.Member(message, "result")
	if response == nil || !rawjson.IsObject(result) {
		return message
	}
	c.mu.Lock()
	switch {
	case c.version != "":
	case c.method == "initialize":
		c.version, c.session = rawjson.StringMember(result, "protocolVersion"), response.Header.Get(sessionHeader)
	case c.stateless:
		c.version = c.header.Get(versionHeader)
	}
	c.mu.Unlock()
	list := rawjson.Member(result, "tools")
	if !c.stateless || c.method != "tools/list" || len(list) == 0 || list[0] != '[' {
		return message
	}
	fine, wrong := []json.RawMessage{}, false
	for it := rawjson.Over(list); it.Next(); {
		tool := it.Value
		name := rawjson.StringMember(tool, "name")
		mirrors, err := mirrorsOf(rawjson.Member(tool, "inputSchema"))
		if err != nil { // "the client MUST exclude the invalid tool from the result of tools/list"
			wrong = true
			c.o.Log.Warn().Str("tool", name).Err(err).Msg("http: leaving out a tool whose x-mcp-header is not valid")
			continue
		}
		fine = append(fine, tool)
		c.mu.Lock()
		delete(c.mirrored, name)
		if len(mirrors) > 0 && len(c.mirrored) < maxMirrored {
			c.mirrored[name] = mirrors
		}
		c.mu.Unlock()
	}
	if !wrong {
		return message
	}
	return rawjson.WithMember(message, "result", rawjson.WithMember(result, "tools", fine))
}

// maxMirrored is of how many tools the headers are kept.
const maxMirrored = 10_000

// mirrorsOf finds the x-mcp-header of a schema ("Schema Extension").
func mirrorsOf(schema []byte) (list []mirror, err error) {
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
			case !httpguts.ValidHeaderFieldName(name):
				err = fmt.Errorf("%q cannot be a header's name", name)
			case !reachable || len(path) == 0 || !slices.Contains([]string{"string", "integer", "boolean"}, kind):
				err = errors.New("it stands at what is not a string, integer or boolean that can be reached by properties alone")
			case slices.ContainsFunc(list, func(m mirror) bool { return strings.EqualFold(m.header, name) }):
				err = fmt.Errorf("%s is there twice", name)
			}
			list = append(list, mirror{slices.Clone(path), name})
		}
		for key, value := range object {
			properties, ok := value.(map[string]any)
			switch {
			case key == "properties" && ok:
				for name, property := range properties {
					walk(property, append(path[:len(path):len(path)], name), reachable)
				}
			case key != "const" && key != "enum" && key != "default" && key != "examples": // which are values
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
