package rpc

import (
	"encoding/json"
	"errors"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// ReadParam reads the params, or a member of them, and says where they hold what does not belong there.
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
