package schema

import (
	"bytes"
	"encoding/json"
	"slices"

	"runnel/rpc/rawjson"
)

// shape is what most input schemas say: an object, the plain types of its members, which of them must be there, and
// whether there may be others. It answers only "certainly valid"; all else, and every message, is the schema's own.
// The profile of small calls showed a quarter of their processor time in decoding arguments
// into maps and walking the compiled schema. FuzzShape holds what it accepts to what the schema accepts.
type shape struct {
	types    map[string]string // by member; "" = any value
	required []string          // maxRequired at most
	closed   bool              // no other members
}

const maxRequired = 64 // bits of the set of those that were seen

// shapeOf reads a schema, nil if it says more than a shape can.
func shapeOf(source []byte) *shape {
	var keywords map[string]json.RawMessage
	if json.Unmarshal(source, &keywords) != nil {
		return nil
	}
	s := &shape{types: map[string]string{}}
	properties := map[string]map[string]json.RawMessage{}
	for keyword, value := range keywords {
		var err error
		switch keyword {
		case "type":
			if string(value) != `"object"` {
				return nil
			}
		case "properties":
			err = json.Unmarshal(value, &properties)
		case "required":
			err = json.Unmarshal(value, &s.required)
		case "additionalProperties":
			open := false
			err = json.Unmarshal(value, &open)
			s.closed = !open
		case "title", "description": // say nothing about what is valid
			err = json.Unmarshal(value, new(string))
		default:
			return nil
		}
		if err != nil || string(value) == "null" {
			return nil
		}
	}
	if len(s.required) > maxRequired {
		return nil
	}
	for name, property := range properties {
		if property == nil { // null
			return nil
		}
		kind := ""
		for keyword, value := range property {
			switch keyword {
			case "type":
				if json.Unmarshal(value, &kind) != nil || !slices.Contains([]string{"string", "integer", "number", "boolean"}, kind) {
					return nil
				}
			case "default":
			case "title", "description":
				if value[0] != '"' {
					return nil
				}
			default:
				return nil
			}
		}
		s.types[name] = kind
	}
	return s
}

// fits reports whether arguments, a valid JSON object, are certainly valid.
func (s *shape) fits(arguments []byte) bool {
	fits, seen := true, uint64(0)
	rawjson.EachMember(arguments, func(name, value []byte) bool {
		kind, known := s.types[string(name)]
		if fits = hasType(value, kind) && (known || !s.closed); !fits {
			return false
		}
		for i, required := range s.required {
			if string(name) == required {
				seen |= 1 << i
			}
		}
		return true
	})
	return fits && seen == 1<<len(s.required)-1
}

// hasType reports whether a valid JSON value is certainly of a type.
func hasType(value []byte, kind string) bool {
	switch c := value[0]; kind {
	case "string":
		return c == '"'
	case "boolean":
		return c == 't' || c == 'f'
	case "number":
		return c == '-' || c >= '0' && c <= '9'
	case "integer": // 1.0 and 1e3 are integers, too: the schema says so
		return (c == '-' || c >= '0' && c <= '9') && !bytes.ContainsAny(value, ".eE")
	}
	return kind == ""
}
