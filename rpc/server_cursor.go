package rpc

import (
	"encoding/json"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// ErrCursor: "Invalid cursors SHOULD result in an error with code -32602" (server/utilities/pagination, "Error Handling").
var ErrCursor = Errorf(mcp.CodeInvalidParams, "invalid cursor: use the nextCursor of the page before, or none")

// Cursor reads which page of a list a request asks for, "" for the first (server/utilities/pagination). Its error is an *[Error].
func Cursor(params json.RawMessage) (string, error) {
	var p mcp.PaginatedRequestParams
	if len(params) > 0 && rawjson.Unmarshal(params, &p) != nil {
		return "", Errorf(mcp.CodeInvalidParams, "params.cursor must be a string")
	}
	return p.Cursor, nil
}
