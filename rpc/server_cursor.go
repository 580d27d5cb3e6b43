package rpc

import (
	"encoding/json"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// Cursor reads which page of a list a request asks for, "" for the first (server/utilities/pagination). Its error is an *[Error].
func Cursor(params json.RawMessage) (string, error) {
	var p mcp.PaginatedRequestParams
	if len(params) > 0 && rawjson.Unmarshal(params, &p) != nil {
		return "", Errorf(mcp.CodeInvalidParams, "params.cursor must be a string")
	}
	return p.Cursor, nil
}
