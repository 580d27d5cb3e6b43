package schema

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"runnel/rpc/rawjson"
)

// Certain reports whether valid JSON is certainly a schema.
func Certain(source []byte) bool {
	if source[0] != '{' {
		return source[0] == 't' || source[0] == 'f'
	}
	certain := true
	rawjson.EachMember(source, func(keyword, value []byte) bool {
		certain = certainKeyword(string(keyword), value)
		return certain
	})
	return certain
}

func certainKeyword(keyword string, value []byte) bool {
	switch keyword {
	case "type":
		return value[0] == '"' && slices.Contains(typeNames, string(bytes.Trim(value, `"`))) // null is no name
	case "title", "description":
		return value[0] == '"'
	case "default": // it stands beside what it must fit
		return true
	case "items", "additionalProperties":
		return Certain(value)
	case "properties":
		certain := value[0] == '{'
		if certain {
			rawjson.EachMember(value, func(_, property []byte) bool {
				certain = Certain(property)
				return certain
			})
		}
		return certain
	case "required", "enum":
		return value[0] == '[' && json.Unmarshal(value, new([]string)) == nil
	case "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems":
		_, err := strconv.ParseUint(string(value), 10, 31)
		return err == nil
	}
	return false
}

// CertainlyFits reports whether a value certainly fits a schema that is certain.
func CertainlyFits(value, schema []byte) bool {
	if schema[0] != '{' {
		return schema[0] == 't'
	}
	kind, items, certain := "", []byte("true"), true
	rawjson.EachMember(schema, func(keyword, value []byte) bool {
		switch string(keyword) {
		case "type":
			kind = string(bytes.Trim(value, `"`))
		case "items":
			items = value
		case "title", "description", "default":
		default:
			certain = false
		}
		return certain
	})
	if kind != "array" {
		return certain && hasType(value, kind)
	}
	var list []json.RawMessage
	return certain && value[0] == '[' && json.Unmarshal(value, &list) == nil &&
		!slices.ContainsFunc(list, func(item json.RawMessage) bool { return !CertainlyFits(item, items) })
}
