package httpserver

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"runnel/internal/headers"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// message is what is read of a body before the rpc.Session gets it: what the headers repeat, above all. Byte
// slices are JSON, nil if absent.
type message struct {
	id       []byte
	method   string
	params   []byte
	version  []byte   // in _meta, in the stateless era
	complete bool     // it has all the fields of that era
	adds     [][]byte // it, or the messages in its batch, if they change what must be stored of the session
}

func readMessage(body []byte) message {
	if rawjson.IsArray(body) {
		batch := message{}
		for it := rawjson.Over(body); it.Next(); {
			if rawjson.IsObject(it.Value) {
				batch.adds = append(batch.adds, readMessage(it.Value).adds...)
			}
		}
		return batch
	}
	if !rawjson.IsObject(body) {
		return message{}
	}
	m := message{id: rawjson.Member(body, "id"), method: rawjson.StringMember(body, "method"),
		params: rawjson.Member(body, "params")}
	if slices.Contains([]string{"resources/subscribe", "resources/unsubscribe", "logging/setLevel"},
		m.method) {
		m.adds = [][]byte{body}
	}
	if !rawjson.IsObject(m.params) {
		return m
	}
	if meta := rawjson.Member(m.params, "_meta"); rawjson.IsObject(meta) {
		m.version = rawjson.Member(meta, mcp.MetaProtocolVersion)
		m.complete = m.version != nil && rawjson.IsObject(rawjson.Member(meta, mcp.MetaClientCapabilities))
	}
	return m
}

// isStateless reports whether a request is of the stateless era, according to its body or at least its
// header.
func isStateless(r *http.Request, m *message) bool {
	v := mcp.LookupVersion(r.Header.Get(headers.Version))
	return m.version != nil || v != nil && v.Stateless
}

// mismatch describes where the headers of a request contradict its body, "" if nowhere: "servers MUST reject
// requests where the values specified in the headers do not match" (2026-07-28
// basic/transports/streamable-http, "Server Validation").
func mismatch(r *http.Request, m *message) string {
	if problem := compare(r, headers.Version, rawjson.Unquote(m.version), true); problem != "" {
		return problem
	}
	if problem := compare(r, headers.Method, m.method, true); problem != "" {
		return problem
	}
	member, ok := headers.Named[m.method]
	if !ok || !rawjson.IsObject(m.params) {
		return ""
	}
	value, problem := onlyMember(m.params, "params", member)
	if problem != "" {
		return problem
	}
	// "When tasks/get, tasks/update, or tasks/cancel is sent over the Streamable HTTP transport, the client
	// MUST set the Mcp-Name header" (SEP-2663), but a server of the core protocol need not refuse requests
	// without it.
	return compare(r, headers.Name, rawjson.Unquote(value), member != "taskId")
}

// malformed describes what is wrong with the headers of MCP by themselves, "" if nothing: each is there once,
// in ASCII. Readers differ in which of two they use, and in how they decode other bytes.
func malformed(h http.Header) string {
	for name, values := range h {
		switch {
		case !strings.HasPrefix(name, "Mcp-"):
		case len(values) > 1:
			return fmt.Sprintf("header mismatch: %.100s is there twice", name)
		case strings.ContainsFunc(values[0], func(r rune) bool { return r > unicode.MaxASCII }):
			return fmt.Sprintf("header mismatch: %.100s has characters that are not ASCII: write "+
				"=?base64?...?= instead", name)
		}
	}
	return ""
}

// onlyMember returns the value of a member, and a problem if there are two of them: readers differ in which
// one they use.
func onlyMember(object []byte, where, member string) (value []byte, problem string) {
	for it := rawjson.Over(object); it.Next(); {
		if string(it.Name) != member {
			continue
		}
		if value != nil {
			return nil, fmt.Sprintf("header mismatch: %s.%.100s is there twice", where, member)
		}
		value = it.Value
	}
	return value, ""
}

func compare(r *http.Request, header, body string, required bool) string {
	values := r.Header.Values(header)
	switch {
	case len(values) == 0 && !required:
		return ""
	case len(values) == 0:
		return fmt.Sprintf("header mismatch: %s is missing", header)
	}
	value := values[0]
	if header == headers.Name || strings.HasPrefix(header, headers.Param) {
		var ok bool
		if value, ok = headers.Decode(value); !ok {
			return fmt.Sprintf("header mismatch: %s is not what =?base64?...?= stands for", header)
		}
	}
	if value != body {
		return fmt.Sprintf("header mismatch: %s is %.100q, the body says %.100q", header, value, body)
	}
	return ""
}

// accepts reports whether a client can read a media type. A client without an Accept header can read any.
func accepts(r *http.Request, kind string) bool {
	all := strings.Join(r.Header.Values("Accept"), ",")
	for one := range strings.SplitSeq(all, ",") {
		name, _, _ := mime.ParseMediaType(one)
		if name == kind || name == "*/*" || name == strings.SplitN(kind, "/", 2)[0]+"/*" {
			return true
		}
	}
	return all == ""
}

// paramMismatch describes where the headers that repeat arguments contradict the arguments of a call, "" if
// nowhere: "Any server that processes the message body MUST validate that encoded header values [...] match
// the corresponding values in the request body" (2026-07-28 basic/transports/streamable-http, "Server
// Behavior for Custom Headers").
func paramMismatch(r *http.Request, inputSchema, params []byte) string {
	list, _ := headers.Arguments(inputSchema) // its error is the tool's
	for _, a := range list {
		value, where := params, "params"
		for _, step := range append([]string{"arguments"}, a.Path...) {
			var problem string
			if value, problem = onlyMember(value, where, step); problem != "" {
				return problem
			}
			where = strings.TrimPrefix(where+"."+step, "params.")
		}
		if problem := compareArgument(r, a.Header, value); problem != "" {
			return problem
		}
	}
	return ""
}

// compareArgument compares an argument with its header. An argument that is null counts as absent.
func compareArgument(r *http.Request, header string, value []byte) string {
	header = http.CanonicalHeaderKey(header)
	switch absent := value == nil || string(value) == "null"; {
	case absent && len(r.Header.Values(header)) > 0:
		return "header mismatch: " + header + " is there, and no argument for it"
	case absent || sameNumber(r.Header.Get(header), string(value)):
		return ""
	case value[0] == '"':
		return compare(r, header, rawjson.Unquote(value), true)
	}
	return compare(r, header, string(value), true)
}

// sameNumber reports whether two texts are the same JSON number: "servers SHOULD compare the header value and
// the body value numerically".
func sameNumber(header, value string) bool {
	var a, b json.Number
	if json.Unmarshal([]byte(header), &a) != nil || json.Unmarshal([]byte(value), &b) != nil ||
		value[0] == '"' || header[0] == '"' {
		return false
	}
	x, err := a.Float64()
	y, wrong := b.Float64()
	return err == nil && wrong == nil && x == y
}
