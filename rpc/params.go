package rpc

import (
	"encoding/json"
	"errors"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// ReadParam reads the params, or a member of them, and says where they hold what does not belong there. Use it, not encoding/json, where
// the client is to learn what was wrong.
func ReadParam(name string, value []byte, to any) error {
	err := rawjson.Unmarshal(value, to)
	if err == nil {
		return nil
	}
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return Errorf(mcp.CodeInvalidParams, "%s cannot be read", name)
	}
	if wrong.Field != "" {
		name += "." + wrong.Field
	}
	return Errorf(mcp.CodeInvalidParams, "%s: a JSON %s does not belong there", name, wrong.Value)
}

// ErrCursor is for a page whose cursor nobody gave out. "Invalid cursors SHOULD result in an error with code -32602"
// (server/utilities/pagination, "Error Handling").
var ErrCursor = Errorf(mcp.CodeInvalidParams, "invalid cursor: use the nextCursor of the page before, or none")

// Cursor reads which page of a list a request asks for, "" for the first (server/utilities/pagination). Its error is an *[Error]. The
// handler of each method that lists begins with it.
func Cursor(params json.RawMessage) (string, error) {
	cursor := rawjson.Member(params, "cursor")
	if rawjson.IsArray(params) || cursor != nil && cursor[0] != '"' && string(cursor) != "null" {
		return "", Errorf(mcp.CodeInvalidParams, "params.cursor must be a string")
	}
	return rawjson.Unquote(cursor), nil
}
