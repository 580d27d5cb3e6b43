package tools

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"runnel/rpc/rawjson"
)

// schema checks a tool's arguments. It is compiled when a shape does not do, so that a server with many tools starts at once.
type schema struct {
	source []byte
	of     string // what is checked, for messages; "" = argument

	once     sync.Once
	compiled *compiledSchema
	err      error

	shapeOnce sync.Once
	shape     *shape // nil: the schema says more
}

// check returns an error that names an argument that is wrong and what is allowed.
func (s *schema) check(arguments []byte) error {
	if s.fits(arguments) {
		return nil
	}
	return s.checkSlowly(arguments)
}

// fits reports whether arguments are certainly valid, which is quickly known.
func (s *schema) fits(arguments []byte) bool {
	s.shapeOnce.Do(func() { s.shape = shapeOf(s.source) })
	return s.shape != nil && rawjson.IsObject(arguments) && s.shape.fits(arguments)
}

func (s *schema) checkSlowly(arguments []byte) error {
	s.once.Do(func() { s.compiled, s.err = compileSchema(s.source) })
	if s.err != nil {
		return s.err
	}
	value, err := readValue(arguments)
	if err != nil {
		return fmt.Errorf("reading the arguments: %w", err)
	}
	wrong := s.compiled.validate(value, len(arguments))
	if wrong == nil {
		return nil
	}
	of := cmp.Or(s.of, "argument")
	if len(wrong.place) == 0 {
		return fmt.Errorf("invalid %ss: %s", of, wrong.problem)
	}
	return fmt.Errorf("invalid %ss: %s %q: %s", of, of, strings.Join(wrong.place, "/"), wrong.problem)
}

// readValue reads JSON as the library takes it.
func readValue(source []byte) (any, error) {
	var v any
	err := json.Unmarshal(source, &v)
	if number, ok := errors.AsType[*json.UnmarshalTypeError](err); ok { // the only thing that any cannot hold
		return nil, fmt.Errorf("%s is out of range", clip(number.Value))
	}
	return terse(v), err
}

// clip shortens what is shown of a schema or a value.
func clip(s string) string {
	const most = 300
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}

// The library prints the values that do not fit, and prints them again for each schema that they are in: these are
// printed short. What is said of them comes from explain.
type (
	terseText   string
	terseObject map[string]any
	terseList   []any
)

func (terseText) String() string   { return "string" }
func (terseObject) String() string { return "object" }
func (terseList) String() string   { return "array" }

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
