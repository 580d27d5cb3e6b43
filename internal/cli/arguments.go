package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"slices"
	"strings"
	"unicode/utf8"
)

// inputSchema is what a tool's input schema says of the arguments, as far as a command line needs it.
type inputSchema struct {
	properties []property // in the order of the schema
}

// property is one argument of a tool, or one field of a question.
type property struct {
	name     string
	required bool

	Types       types             `json:"type"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Enum        []json.RawMessage `json:"enum"`
	Default     json.RawMessage   `json:"default"`
	Items       *property         `json:"items"`
	AnyOf       []property        `json:"anyOf"`
	OneOf       []property        `json:"oneOf"`
	Const       json.RawMessage   `json:"const"`
}

// types is a schema's type: a word or several.
type types []string

// UnmarshalJSON never fails: a type that is none reads as absent.
func (t *types) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*t = types{one}
		return nil
	}
	_ = json.Unmarshal(b, (*[]string)(t))
	return nil
}

// readSchema reads a schema. What cannot be read is left out: the server checks the arguments, not this.
func readSchema(schema json.RawMessage) (s inputSchema) {
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
		var p property
		var raw json.RawMessage
		if err != nil || members.Decode(&raw) != nil {
			return s
		}
		_ = json.Unmarshal(raw, &p) // true is a schema, too
		p.name, _ = name.(string)
		p.required = slices.Contains(o.Required, p.name)
		s.properties = append(s.properties, p)
	}
	return s
}

func (s *inputSchema) find(name string) *property {
	for n := range s.properties {
		if s.properties[n].name == name {
			return &s.properties[n]
		}
	}
	return nil
}

// usage is how an argument is written: name=type, in brackets if it may be left out.
func (p *property) usage() string {
	of := p
	if p.Items != nil && slices.Equal(p.allTypes(), []string{"array"}) {
		of = p.Items // one is given at a time
	}
	kind := cmp.Or(strings.Join(of.words(), "|"), strings.ToUpper(strings.Join(of.allTypes(), "|")), "VALUE")
	text := p.name + "=" + kind
	if slices.Contains(p.allTypes(), "array") {
		text += "..."
	}
	if !p.required {
		text = "[" + text + "]"
	}
	return printable(text)
}

// about is what a person needs to know of an argument beside its type.
func (p *property) about() string {
	parts := []string{}
	if text := strings.Join(strings.Fields(cmp.Or(p.Description, p.Title)), " "); text != "" {
		parts = append(parts, text)
	}
	switch {
	case p.Default != nil:
		parts = append(parts, "(default "+clipText(unquoted(p.Default))+")")
	case p.required:
		parts = append(parts, "(required)")
	}
	return strings.Join(parts, " ")
}

// allTypes are the types that a value may have, nil if any.
func (p *property) allTypes() (all []string) {
	all = slices.Clone(p.Types)
	for _, other := range append(slices.Clone(p.AnyOf), p.OneOf...) {
		for _, t := range other.allTypes() {
			if !slices.Contains(all, t) {
				all = append(all, t)
			}
		}
	}
	return all
}

// values are those of an enumeration.
func (p *property) values() []json.RawMessage {
	values := slices.Clone(p.Enum)
	for _, other := range append(slices.Clone(p.AnyOf), p.OneOf...) {
		if other.Const != nil {
			values = append(values, other.Const)
		}
	}
	return values
}

// words are the values of an enumeration, as they are written on a command line.
func (p *property) words() (words []string) {
	for _, v := range p.values() {
		words = append(words, unquoted(v))
	}
	return words
}

// unquoted is a JSON value as it is written on a command line: a string without its quotes.
func unquoted(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) == nil {
		return s
	}
	return string(v)
}

// value makes of text what the schema asks for.
func (p *property) value(text string) (json.RawMessage, error) {
	for _, v := range p.values() {
		if unquoted(v) == text {
			return v, nil
		}
	}
	kinds := p.allTypes()
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
	return nil, fmt.Errorf("%q is no %s", clipText(text), strings.Join(kinds, " and no "))
}

// valueOf makes of text a value of a type other than string, if it is one. An array may be given by one of its elements.
func (p *property) valueOf(kind, text string) (v json.RawMessage, ok bool) {
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
		element, err := cmp.Or(p.Items, &property{}).value(text)
		return slices.Concat([]byte{'['}, element, []byte{']'}), err == nil
	}
	return nil, false
}

func quoted(text string) json.RawMessage {
	v, _ := json.Marshal(text)
	return v
}

// isNumber reports whether text is a number as JSON writes it; with integer, one without a fraction.
func isNumber(text string, integer bool) bool {
	if text == "" || text[0] != '-' && (text[0] < '0' || text[0] > '9') || !json.Valid([]byte(text)) {
		return false
	}
	r, ok := new(big.Rat).SetString(text)
	return !integer || ok && r.IsInt()
}

// asJSON takes text that is a JSON value already, one that begins with a byte if that is not 0.
func asJSON(text string, first byte) (json.RawMessage, bool) {
	trimmed := strings.TrimSpace(text)
	if trimmed == "" || first != 0 && trimmed[0] != first || !json.Valid([]byte(trimmed)) {
		return nil, false
	}
	return json.RawMessage(trimmed), true
}

// parseArguments makes the arguments of a call of key=value words and of a JSON object, over which the words win.
func parseArguments(schema json.RawMessage, words []string, object string) (json.RawMessage, error) {
	arguments := map[string]json.RawMessage{}
	if object != "" {
		if !utf8.ValidString(object) {
			return nil, errors.New("--json: the object is not UTF-8, as JSON must be")
		}
		if json.Unmarshal([]byte(object), &arguments) != nil || arguments == nil {
			return nil, fmt.Errorf("--json: %q is no JSON object", clipText(object))
		}
	}
	s := readSchema(schema)
	given := map[string]bool{}
	var errs []error
	for _, word := range words {
		key, text, ok := strings.Cut(word, "=")
		if !ok || key == "" {
			errs = append(errs, fmt.Errorf("%q is no argument (allowed: key=value, key=@file)", clipText(word)))
			continue
		}
		if !utf8.ValidString(key) {
			errs = append(errs, fmt.Errorf("the name %q is not UTF-8, as JSON must be", clipText(key)))
			continue
		}
		v, err := argument(s.find(key), text)
		if err == nil && given[key] {
			v, err = appendTo(arguments[key], v, s.find(key))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
			continue
		}
		given[key], arguments[key] = true, v
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return json.Marshal(arguments)
}

// argument reads one value; nil is an argument that the schema does not know. "@file" is what the file holds, "@@" an @.
func argument(p *property, text string) (json.RawMessage, error) {
	from := "the text"
	if file, ok := strings.CutPrefix(text, "@"); ok && !strings.HasPrefix(file, "@") {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		text, from = string(b), file
	} else if ok {
		text = file
	}
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("%s is not UTF-8, as JSON must be; base64 makes text of any bytes", from)
	}
	if p == nil {
		p = &property{}
	}
	v, err := p.value(text)
	if err != nil {
		// A file ends with a newline that belongs to no number.
		if trimmed := strings.TrimSpace(text); trimmed != text {
			return p.value(trimmed)
		}
	}
	return v, err
}

// appendTo adds to an array what is given again.
func appendTo(list, more json.RawMessage, p *property) (json.RawMessage, error) {
	var a, b []json.RawMessage
	if p == nil || !slices.Contains(p.allTypes(), "array") || json.Unmarshal(list, &a) != nil || json.Unmarshal(more, &b) != nil {
		return nil, errors.New("given twice, and it is no array")
	}
	return json.Marshal(append(a, b...))
}
