package schema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"runnel/internal/shorten"
	"runnel/rpc/rawjson"
)

// Checker checks values against a schema, such as a tool's arguments. The schema is compiled when it is first
// needed, so that a server with many tools starts at once.
type Checker struct {
	source []byte
	of     string // the kind of the values, for messages

	once     sync.Once
	compiled *compiled
	err      error
}

// New makes a Checker for the JSON text of a schema. of names in messages what the values are: "field",
// "member"; "" = "argument".
func New(source []byte, of string) *Checker {
	return &Checker{source: source, of: cmp.Or(of, "argument")}
}

// Compile returns the first mistake in the schema itself, an [*Error].
func (s *Checker) Compile() error {
	s.once.Do(func() { s.compiled, s.err = compile(s.source) })
	return s.err
}

// Check returns an error that says what is wrong with the arguments, a JSON text, and where.
func (s *Checker) Check(arguments []byte) error {
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
	return fmt.Errorf("invalid %ss: %s %q %s", s.of, s.of, strings.Join(wrong.Place, "/"), wrong.Problem)
}

// CheckProperty checks the JSON value of one property without the others, such as its default. The error is
// an [*Error].
func (s *Checker) CheckProperty(name string, source []byte) error {
	if err := s.Compile(); err != nil {
		return err
	}
	value, err := readValue(source)
	if err != nil {
		return &Error{nil, err.Error()}
	}
	wrong := s.compiled.check(terseObject{name: value}, len(source))
	// The rest of the schema is about whole calls.
	if wrong == nil || len(wrong.Place) == 0 || wrong.Place[0] != name {
		return nil
	}
	wrong.Place = wrong.Place[1:]
	return wrong
}

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
	// The only error about a valid JSON text.
	if number, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
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

// Fit returns the arguments as a tool takes them, or an error as Check does. What is valid stays as it is.
// But models and clients also send null for an argument that they leave out, and "3", "true", "[1]" or "{}"
// for a number, a boolean, an array or an object. Where the schema leaves no doubt, such an argument is
// absent, or the value in the string.
func (s *Checker) Fit(arguments json.RawMessage) (json.RawMessage, error) {
	err := s.Check(arguments)
	if err == nil || s.err != nil || !json.Valid(arguments) {
		return arguments, err
	}
	f := fitting{s.compiled.tree, map[*part][]string{}}
	arguments = f.meant(s.compiled.parts[0], bytes.TrimSpace(arguments), maxFitted)
	return arguments, s.Check(arguments)
}

// maxFitted is how deep Fit looks into a value. Each level is scanned once more.
const maxFitted = 8

// fitting is one Fit.
type fitting struct {
	*tree
	known map[*part][]string // types of parts so far
}

// meant returns what is meant by v, a value that p describes. It never writes into v.
func (f *fitting) meant(p *part, v json.RawMessage, levels int) json.RawMessage {
	types := f.types(p)
	for p.Ref != "" && p.DynamicRef == "" && len(p.Properties) == 0 && p.Items == nil {
		p = p.refs[0]
	}
	if v[0] == '"' && len(types) > 0 && !slices.Contains(types, "string") {
		inside := bytes.TrimSpace([]byte(rawjson.Unquote(v)))
		if json.Valid(inside) && slices.ContainsFunc(types,
			func(name string) bool { return isOf(inside, name) }) && string(inside) != "null" {
			v = inside
		}
	}
	if levels == 0 || v[0] != '{' && v[0] != '[' {
		return v
	}
	var fitted []byte
	for it := rawjson.Over(v); it.Next(); {
		value := json.RawMessage(it.Value)
		of := f.of[p.Items]
		if v[0] == '{' {
			of = f.of[p.Properties[string(it.Name)]]
		}
		if of != nil {
			value = f.meant(of, value, levels-1)
			if types := f.types(of); v[0] == '{' && string(value) == "null" && len(types) > 0 &&
				!slices.Contains(types, "null") && !slices.Contains(p.Required, string(it.Name)) {
				continue
			}
		}
		if len(fitted) > 0 {
			fitted = append(fitted, ',')
		}
		if v[0] == '{' {
			fitted = append(append(fitted, it.Quoted...), ':')
		}
		fitted = append(fitted, value...)
	}
	return slices.Concat([]byte{v[0]}, fitted, []byte{v[0] + 2}) // ] and } come two after [ and {
}

// types returns the types of the values that p allows, nil if it does not say.
func (f *fitting) types(p *part) (types []string) {
	if types, ok := f.known[p]; ok {
		return types
	}
	defer func() { f.known[p] = types }()
	switch choices := slices.Concat(p.AnyOf, p.OneOf); {
	case p.Type != "":
		return []string{p.Type}
	case len(p.Types) > 0:
		return p.Types
	case p.Ref != "" && p.DynamicRef == "":
		return f.types(p.refs[0])
	case len(choices) > 0:
		for _, choice := range choices {
			each := f.types(f.of[choice])
			if each == nil {
				return nil
			}
			types = append(types, each...)
		}
	}
	for _, value := range p.Enum {
		types = append(types, typeOf(rawjson.Encode(value)))
	}
	return types
}

// typeOf returns the type of a JSON value.
func typeOf(v []byte) string {
	switch v[0] {
	case '"':
		return "string"
	case '{':
		return "object"
	case '[':
		return "array"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}

// isOf reports whether a JSON value may be of a type: a number may be an integer.
func isOf(v []byte, name string) bool {
	return typeOf(v) == name || name == "integer" && typeOf(v) == "number"
}
