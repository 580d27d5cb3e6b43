package term

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// Form is the part of a tool's input schema that a command line needs: its fields, in their order.
type Form []Field

// Field is one argument of a tool, or one field of a question.
type Field struct {
	Name     string `json:"-"`
	required bool

	Types       types             `json:"type"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Enum        []json.RawMessage `json:"enum"`
	Default     json.RawMessage   `json:"default"`
	Items       *Field            `json:"items"`
	AnyOf       []Field           `json:"anyOf"`
	OneOf       []Field           `json:"oneOf"`
	Const       json.RawMessage   `json:"const"`
}

// types is the type of a schema: one word or several.
type types []string

// UnmarshalJSON never fails: a wrong type reads as absent.
func (t *types) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*t = types{one}
		return nil
	}
	_ = json.Unmarshal(b, (*[]string)(t))
	return nil
}

// ReadForm reads the schema of a tool's input or of a question. It leaves out what it cannot read: the server
// checks the values.
func ReadForm(schema json.RawMessage) (s Form) {
	var o struct {
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	_ = json.Unmarshal(schema, &o)
	members := json.NewDecoder(bytes.NewReader(o.Properties))
	if t, err := members.Token(); err != nil || t != json.Delim('{') {
		return s
	}
	for members.More() {
		name, err := members.Token()
		var p Field
		var raw json.RawMessage
		if err != nil || members.Decode(&raw) != nil {
			return s
		}
		_ = json.Unmarshal(raw, &p) // true is a schema, too
		p.Name, _ = name.(string)
		p.required = slices.Contains(o.Required, p.Name)
		s = append(s, p)
	}
	return s
}

// Usage shows how all arguments are written, "" if there are none.
func (s Form) Usage() string {
	var usage []string
	for _, f := range s {
		usage = append(usage, f.Usage())
	}
	return strings.Join(usage, " ")
}

// Find finds a field by its name. A field that the schema lacks may hold anything.
func (s Form) Find(name string) *Field {
	n := slices.IndexFunc(s, func(f Field) bool { return f.Name == name })
	if n < 0 {
		return &Field{}
	}
	return &s[n]
}

// Usage shows how an argument is written: name=type, in brackets if it may be left out.
func (p *Field) Usage() string {
	of := p
	if p.Items != nil && slices.Equal(p.AllTypes(), []string{"array"}) {
		of = p.Items // elements are given one at a time
	}
	kind := cmp.Or(strings.Join(of.Words(), "|"), strings.ToUpper(strings.Join(of.AllTypes(), "|")), "VALUE")
	text := p.Name + "=" + kind
	if slices.Contains(p.AllTypes(), "array") {
		text += "..."
	}
	if !p.required {
		text = "[" + text + "]"
	}
	return Printable(text)
}

// About describes an argument, without its type.
func (p *Field) About() string {
	parts := []string{}
	if text := strings.Join(strings.Fields(cmp.Or(p.Description, p.Title)), " "); text != "" {
		parts = append(parts, text)
	}
	switch {
	case p.Default != nil:
		parts = append(parts, "(default "+Shorten(Unquoted(p.Default))+")")
	case p.required:
		parts = append(parts, "(required)")
	}
	return strings.Join(parts, " ")
}

// AllTypes returns the types that a value may have, nil if it may have any.
func (p *Field) AllTypes() (all []string) {
	all = slices.Clone(p.Types)
	for _, other := range append(slices.Clone(p.AnyOf), p.OneOf...) {
		for _, t := range other.AllTypes() {
			if !slices.Contains(all, t) {
				all = append(all, t)
			}
		}
	}
	return all
}

// values returns the values of an enumeration.
func (p *Field) values() []json.RawMessage {
	values := slices.Clone(p.Enum)
	for _, other := range append(slices.Clone(p.AnyOf), p.OneOf...) {
		if other.Const != nil {
			values = append(values, other.Const)
		}
	}
	return values
}

// Words returns the values of an enumeration as they are written on a command line.
func (p *Field) Words() (words []string) {
	for _, v := range p.values() {
		words = append(words, Unquoted(v))
	}
	return words
}

// Unquoted returns a JSON value as it is written on a command line: a string without its quotes.
func Unquoted(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) == nil {
		return s
	}
	return string(v)
}

// Value converts text to the JSON value that the schema asks for.
func (p *Field) Value(text string) (json.RawMessage, error) {
	for _, v := range p.values() {
		if Unquoted(v) == text {
			return v, nil
		}
	}
	kinds := p.AllTypes()
	for _, kind := range kinds {
		if v, ok := p.valueOf(kind, text); ok {
			return v, nil
		}
	}
	switch {
	case slices.Contains(kinds, "string"):
		return quoted(text), nil
	case len(kinds) == 0:
		if v, ok := asJSON(text, 0); ok {
			return v, nil
		}
		return quoted(text), nil
	}
	if slices.Contains(kinds, "array") {
		element := cmp.Or(strings.Join(cmp.Or(p.Items, &Field{}).AllTypes(), " or "), "anything")
		return nil, fmt.Errorf("%q is not a JSON array, nor an element of one (%s): write %[3]s= once for "+
			"each element, or %[3]s='[...]'", Shorten(text), element, p.Name)
	}
	return nil, fmt.Errorf("%q is not of type %s", Shorten(text), strings.Join(kinds, " or "))
}

// valueOf converts text to a value of a type other than string, if it is one. A single element counts as an
// array.
func (p *Field) valueOf(kind, text string) (v json.RawMessage, ok bool) {
	switch v = json.RawMessage(text); kind {
	case "null":
		return v, text == "null"
	case "boolean":
		return v, text == "true" || text == "false"
	case "integer", "number":
		return v, isNumber(text, kind == "integer")
	case "object":
		return asJSON(text, '{')
	case "array":
		if v, ok := asJSON(text, '['); ok {
			return v, true
		}
		element, err := cmp.Or(p.Items, &Field{}).Value(text)
		return slices.Concat([]byte{'['}, element, []byte{']'}), err == nil
	}
	return nil, false
}

func quoted(text string) json.RawMessage {
	v, _ := json.Marshal(text)
	return v
}

// isNumber reports whether text is a JSON number and, with integer, has no fraction.
func isNumber(text string, integer bool) bool {
	if text == "" || text[0] != '-' && (text[0] < '0' || text[0] > '9') || !json.Valid([]byte(text)) {
		return false
	}
	r, ok := new(big.Rat).SetString(text)
	return !integer || ok && r.IsInt()
}

// asJSON takes text that is already a JSON value and, unless first is 0, begins with first.
func asJSON(text string, first byte) (json.RawMessage, bool) {
	trimmed := strings.TrimSpace(text)
	if trimmed == "" || first != 0 && trimmed[0] != first || !json.Valid([]byte(trimmed)) {
		return nil, false
	}
	return json.RawMessage(trimmed), true
}
