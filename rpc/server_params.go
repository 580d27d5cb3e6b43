package rpc

import (
	"encoding/json"
	"errors"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// ReadParam reads the params, or one member of them, and returns an error that names the value of a wrong
// type. Use it instead of encoding/json where the client should learn of its mistake.
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

// ErrCursor refuses an unknown cursor. "Invalid cursors SHOULD result in an error with code -32602"
// (server/utilities/pagination, "Error Handling").
var ErrCursor = Errorf(mcp.CodeInvalidParams, "invalid cursor: use the nextCursor of the page before, or none")

// Cursor returns the cursor of the page that a request asks for, "" for the first
// (server/utilities/pagination). Its error is an *[Error]. Call it first in the handler of any method that
// lists something.
func Cursor(params json.RawMessage) (string, error) {
	cursor := rawjson.Member(params, "cursor")
	if rawjson.IsArray(params) || cursor != nil && cursor[0] != '"' && string(cursor) != "null" {
		return "", Errorf(mcp.CodeInvalidParams, "params.cursor must be a string")
	}
	return rawjson.Unquote(cursor), nil
}
