package httpclient

import (
	"encoding/json"
	"net/http"

	"runnel/internal/headers"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

const (
	eventStream = "text/event-stream"
	jsonType    = "application/json"
)

// headersOf returns the headers for a line, and whether the line is of 2026-07-28: "The Streamable HTTP
// transport mirrors selected JSON-RPC body fields into HTTP headers" ("Request Metadata").
func (l *link) headersOf(method string, params []byte) (header http.Header, stateless bool) {
	header = http.Header{"Content-Type": {jsonType}, "Accept": {jsonType + ", " + eventStream}}
	version := rawjson.StringMember(rawjson.Member(params, "_meta"), mcp.MetaProtocolVersion)
	if version == "" {
		return header, false
	}
	header.Set(headers.Version, version)
	header.Set(headers.Method, headers.Encode(method))
	if member, ok := headers.Named[method]; ok {
		header.Set(headers.Name, headers.Encode(rawjson.StringMember(params, member)))
	}
	if method != "tools/call" {
		return header, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.mirrored[rawjson.StringMember(params, "name")] {
		if text, ok := a.Value(rawjson.Member(params, "arguments")); ok {
			header.Set(a.Header, headers.Encode(text))
		}
	}
	return header, true
}

// learn takes from a response what later requests must repeat in headers: the version, the session, the
// arguments of tools. version is that of the request if it is of 2026-07-28, else "". It returns the response
// without tools that cannot be called.
func (l *link) learn(method, version string, response *http.Response, message []byte) []byte {
	result := rawjson.Member(message, "result")
	if response == nil || !rawjson.IsObject(result) {
		return message
	}
	l.mu.Lock()
	switch {
	case l.version != "":
	case method == "initialize":
		l.version, l.session = rawjson.StringMember(result, "protocolVersion"),
			response.Header.Get(headers.Session)
	default:
		l.version = version
	}
	l.mu.Unlock()
	list := rawjson.Member(result, "tools")
	if version == "" || method != "tools/list" || len(list) == 0 || list[0] != '[' {
		return message
	}
	fine, wrong := []json.RawMessage{}, false
	for it := rawjson.Over(list); it.Next(); {
		tool := it.Value
		name := rawjson.StringMember(tool, "name")
		arguments, err := headers.Arguments(rawjson.Member(tool, "inputSchema"))
		if err != nil { // "the client MUST exclude the invalid tool from the result of tools/list"
			wrong = true
			l.o.Log.Warn().Str("tool", name).Err(err).
				Msg("http: leaving out a tool whose x-mcp-header is not valid")
			continue
		}
		fine = append(fine, tool)
		l.mu.Lock()
		delete(l.mirrored, name)
		if len(arguments) > 0 && len(l.mirrored) < maxMirrored {
			l.mirrored[name] = arguments
		}
		l.mu.Unlock()
	}
	if !wrong {
		return message
	}
	return rawjson.WithMember(message, "result", rawjson.WithMember(result, "tools", fine))
}

// maxMirrored bounds the tools whose headers are kept.
const maxMirrored = 10_000
