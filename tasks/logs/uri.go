package logs

import (
	"net/url"
	"strconv"
	"strings"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// MaxURI is how long a URI may be, in bytes: answers repeat it.
const MaxURI = 4 << 10

// ParseURI reads a log's URI; id is "" if it is not one.
func ParseURI(uri string) (id string, after int64, err error) {
	path, query, _ := strings.Cut(uri, "?")
	id, ok := strings.CutPrefix(path, tasks.LogPrefix)
	if !ok {
		return "", 0, nil
	}
	if id, ok = strings.CutSuffix(id, tasks.LogSuffix); !ok || strings.ContainsAny(id, "/#") {
		return "", 0, nil
	}
	after, err = position(uri, query)
	return id, after, err
}

// ParseFileURI reads the URI of a file that a task has made; id is "" if it is not one.
func ParseFileURI(uri string) (id, name string, after int64, err error) {
	path, query, _ := strings.Cut(uri, "?")
	rest, ok := strings.CutPrefix(path, tasks.LogPrefix)
	id, name, found := strings.Cut(rest, tasks.FileInfix)
	if !ok || !found || strings.ContainsAny(id, "/#") {
		return "", "", 0, nil
	}
	if name, err = url.PathUnescape(name); err != nil {
		return "", "", 0, rpc.Errorf(mcp.CodeInvalidParams,
			"%.200q: the name of the file cannot be read", uri)
	}
	after, err = position(uri, query)
	return id, name, after, err
}

// position reads the query of a URI.
func position(uri, query string) (after int64, err error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return 0, rpc.Errorf(mcp.CodeInvalidParams, "%.200q: the query cannot be read", uri)
	}
	if values.Has("after") {
		if after, err = strconv.ParseInt(values.Get("after"), 10, 64); err != nil || after < 0 {
			return 0, rpc.Errorf(mcp.CodeInvalidParams, "after must be a position: 0, or what _meta[%q] said",
				mcp.MetaNext)
		}
	}
	return after, nil
}

// NotFound is the error for a resource that does not exist, has expired or is another owner's: "Resource not
// found: -32002", and -32602 since 2026-07-28.
// Use it for every resource, so that nothing reveals those of other owners.
func NotFound(c *rpc.Caller, uri string) *rpc.Error {
	code := mcp.CodeResourceNotFound
	if c.Era == rpc.Stateless {
		code = mcp.CodeInvalidParams
	}
	return &rpc.Error{Code: code, Message: "resource not found: it is unknown or has expired",
		Data: mcp.ResourceParams{URI: uri}}
}
