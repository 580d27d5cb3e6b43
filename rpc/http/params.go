package httpserver

import (
	"encoding/json"
	"net/http"
	"strings"

	"runnel/internal/headers"
	"runnel/rpc/rawjson"
)

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
