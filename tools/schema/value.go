package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"runnel/internal/shorten"
)

// Error is a mistake in a schema or in a value.
type Error struct {
	Place   []string // the names and indexes that lead to it, "*" for an unknown one; empty: the whole
	Problem string
}

// Error returns the problem after its place.
func (e *Error) Error() string {
	if len(e.Place) == 0 {
		return e.Problem
	}
	return strings.Join(e.Place, "/") + ": " + e.Problem
}

// readValue decodes JSON for the library.
func readValue(source []byte) (any, error) {
	var v any
	err := json.Unmarshal(source, &v)
	if number, ok := errors.AsType[*json.UnmarshalTypeError](err); ok { // the only error about a valid JSON text
		return nil, fmt.Errorf("%s is out of range", clip(number.Value))
	}
	return terse(v), err
}

// clip shortens a part of a schema or a value for a message.
func clip(s string) string { return shorten.Clip(s, 300) }

// The library prints invalid values in its errors, once for each schema around them. These types print them
// short.
type (
	terseText   string
	terseObject map[string]any
	terseList   []any
)

func (s terseText) String() string {
	return fmt.Sprintf("%q", shorten.Clip(string(s), 40))
}
func (terseObject) String() string { return "an object" }
func (terseList) String() string   { return "an array" }

func terse(v any) any {
	switch v := v.(type) {
	case string:
		return terseText(v)
	case map[string]any:
		for name, member := range v {
			v[name] = terse(member)
		}
		return terseObject(v)
	case []any:
		for i, item := range v {
			v[i] = terse(item)
		}
		return terseList(v)
	}
	return v
}
