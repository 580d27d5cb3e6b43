package schema

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// Schema checks a tool's arguments. It is compiled when it is needed first, so that a server with many tools starts at once.
type Schema struct {
	source []byte
	of     string // what is checked, for messages

	once     sync.Once
	compiled *compiled
	err      error
}

// New is a schema of a tool's arguments, or of what else is checked with it: "field", "member"; "" = "argument".
func New(source []byte, of string) *Schema {
	return &Schema{source: source, of: cmp.Or(of, "argument")}
}

// Error is something that is wrong with a schema, or with a value.
type Error struct {
	Place   []string // the names and indexes that lead to it, "*" for any; empty: the whole
	Problem string
}

func (e *Error) Error() string {
	if len(e.Place) == 0 {
		return e.Problem
	}
	return strings.Join(e.Place, "/") + ": " + e.Problem
}

// Compile returns what is wrong with the schema itself, an [*Error].
func (s *Schema) Compile() error {
	s.once.Do(func() { s.compiled, s.err = compile(s.source) })
	return s.err
}

// Check returns an error that says what is wrong with arguments, and where.
func (s *Schema) Check(arguments []byte) error {
	if err := s.Compile(); err != nil {
		return err
	}
	value, err := readValue(arguments)
	if err != nil {
		return fmt.Errorf("reading the arguments: %w", err)
	}
	wrong := s.compiled.check(value, len(arguments))
	switch {
	case wrong == nil:
		return nil
	case len(wrong.Place) == 0:
		return fmt.Errorf("invalid %ss: %s", s.of, wrong.Problem)
	}
	return fmt.Errorf("invalid %ss: %s %q: %s", s.of, s.of, strings.Join(wrong.Place, "/"), wrong.Problem)
}

// CheckProperty returns what is wrong with the JSON value of a property alone: its default.
func (s *Schema) CheckProperty(name string, source []byte) error {
	if err := s.Compile(); err != nil {
		return err
	}
	value, err := readValue(source)
	if err != nil {
		return err
	}
	if wrong := s.compiled.checkProperty(name, value, len(source)); wrong != nil {
		return wrong
	}
	return nil
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

// The library prints the values that do not fit, and prints them again for each schema that they are in: these are printed short.
type (
	terseText   string
	terseObject map[string]any
	terseList   []any
)

func (s terseText) String() string {
	const most = 40
	if len(s) > most {
		s = s[:most] + "..."
	}
	return fmt.Sprintf("%q", string(s))
}
func (terseObject) String() string { return "an object" }
func (terseList) String() string   { return "a list" }

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
