package schema

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"runnel/rpc/rawjson"
)

// Schema checks a tool's arguments. It is compiled when a shape does not do, so that a server with many tools starts at once.
type Schema struct {
	source []byte
	of     string // what is checked, for messages; "" = argument

	once     sync.Once
	compiled *Compiled
	err      error

	shapeOnce sync.Once
	shape     *shape // nil: the schema says more
}

// New is a schema of a tool's arguments, or of what else is checked with it: fields, members.
func New(source []byte, of string) *Schema { return &Schema{source: source, of: of} }

// Check returns an error that names an argument that is wrong and what is allowed.
func (s *Schema) Check(arguments []byte) error {
	if s.fits(arguments) {
		return nil
	}
	return s.checkSlowly(arguments)
}

// fits reports whether arguments are certainly valid, which is quickly known.
func (s *Schema) fits(arguments []byte) bool {
	s.shapeOnce.Do(func() { s.shape = shapeOf(s.source) })
	return s.shape != nil && rawjson.IsObject(arguments) && s.shape.fits(arguments)
}

func (s *Schema) checkSlowly(arguments []byte) error {
	s.once.Do(func() { s.compiled, s.err = Compile(s.source) })
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
	if len(wrong.Place) == 0 {
		return fmt.Errorf("invalid %ss: %s", of, wrong.Problem)
	}
	return fmt.Errorf("invalid %ss: %s %q: %s", of, of, strings.Join(wrong.Place, "/"), wrong.Problem)
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
