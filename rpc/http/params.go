package httpserver

import (
	"bytes"
	"encoding/json"
	"net/http"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// mirrored is the part of a schema that says which arguments are repeated in headers. Only properties lead to such arguments.
type mirrored struct {
	Header     string              `json:"x-mcp-header"`
	Properties map[string]mirrored `json:"properties"`
}

// paramMismatch describes where the headers that repeat arguments contradict the arguments of a call, "" if nowhere: "Any server that processes
// the message body MUST validate that encoded header values [...] match the corresponding values in the request body" (2026-07-28
// basic/transports/streamable-http, "Server Behavior for Custom Headers").
func paramMismatch(r *http.Request, inputSchema, params []byte) string {
	if !bytes.Contains(inputSchema, []byte("x-mcp-header")) {
		return ""
	}
	var schema mirrored
	if json.Unmarshal(inputSchema, &schema) != nil {
		return "" // no client can use it
	}
	arguments, problem := onlyMember(params, "params", "arguments")
	if problem != "" {
		return problem
	}
	return schema.mismatch(r, arguments, "arguments")
}

// mismatch checks the arguments in an object and the objects inside. An argument that is null counts as absent.
func (m mirrored) mismatch(r *http.Request, object []byte, where string) string {
	for name, property := range m.Properties {
		var value []byte
		if rawjson.IsObject(object) {
			var problem string
			if value, problem = onlyMember(object, where, name); problem != "" {
				return problem
			}
		}
		if property.Header != "" {
			if problem := property.compare(r, value); problem != "" {
				return problem
			}
		}
		if problem := property.mismatch(r, value, where+"."+name); problem != "" {
			return problem
		}
	}
	return ""
}

// compare compares an argument with its header.
func (m mirrored) compare(r *http.Request, value []byte) string {
	header := http.CanonicalHeaderKey(mcp.HeaderParam + m.Header)
	switch {
	case (value == nil || string(value) == "null") && len(r.Header.Values(header)) > 0:
		return "header mismatch: " + header + " is there, and no argument for it"
	case value == nil || string(value) == "null" || sameNumber(r.Header.Get(header), string(value)):
		return ""
	case value[0] == '"':
		return compare(r, header, rawjson.Unquote(value), true)
	}
	return compare(r, header, string(value), true)
}

// sameNumber reports whether two texts are the same JSON number: "servers SHOULD compare the header value and the body value numerically".
func sameNumber(header, value string) bool {
	var a, b json.Number
	if json.Unmarshal([]byte(header), &a) != nil || json.Unmarshal([]byte(value), &b) != nil || value[0] == '"' || header[0] == '"' {
		return false
	}
	x, err := a.Float64()
	y, wrong := b.Float64()
	return err == nil && wrong == nil && x == y
}
