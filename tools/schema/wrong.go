package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const exploding = "the schema explodes on this value, which is too deep or too large for it"

// validate returns what is wrong with a value from readValue, whose JSON has so many bytes, nil if nothing is.
func (c *Compiled) validate(value any, size int) *Error {
	if !c.affordable(value, size) {
		return &Error{nil, exploding}
	}
	if err := c.resolved.Validate(value); err != nil {
		return c.explain(err, c.root, value)
	}
	return nil
}

// CheckMember returns what is wrong with the JSON value of a property, alone.
func (c *Compiled) CheckMember(name string, source []byte) error {
	value, err := readValue(source)
	if err != nil {
		return err
	}
	if wrong := c.validateMember(name, value, len(source)); wrong != nil {
		return wrong
	}
	return nil
}

func (c *Compiled) validateMember(name string, value any, size int) *Error {
	member := terseObject{name: value}
	if !c.affordable(member, size) {
		return &Error{nil, exploding}
	}
	if c.resolved.Validate(member) == nil {
		return nil
	}
	p := c.root.members[name] // it, or others are missing
	alone, err := c.alone(p)
	if err != nil {
		return &Error{nil, err.Error()}
	}
	if err := alone.Validate(value); err != nil {
		return c.explain(err, p, value)
	}
	return nil
}

// explain tells what the library's error means: "validating root: validating /properties/a/items: type: 1 has type ...". The
// schemas that it names lead to the place in the value, which p was applied to.
//
// Which of several parts of a value is wrong is found by validating them again; where that takes too long, the place ends with "...".
func (c *Compiled) explain(err error, p *schemaPart, value any) *Error {
	const patience = 100 * time.Millisecond
	began := time.Now()
	wrong := &Error{}
	outermost, of := true, ""
	for inner := errors.Unwrap(err); inner != nil; err, inner = inner, errors.Unwrap(inner) {
		name := strings.TrimPrefix(strings.TrimSuffix(err.Error(), ": "+inner.Error()), "validating ")
		to := c.named(name)
		if to == nil || outermost {
			outermost = false
			continue
		}
		if time.Since(began) > patience {
			wrong.Place = append(wrong.Place, "...")
			wrong.Problem = "does not fit"
			return wrong
		}
		var step string
		if step, value = c.step(p, to, value); step != "" {
			wrong.Place = append(wrong.Place, step)
		}
		if p.names == to {
			of = "its name: "
		}
		p = to
	}
	wrong.Problem = of + p.problem(err.Error(), value)
	return wrong
}

// named is the part that the library names so.
func (c *Compiled) named(name string) *schemaPart {
	if name == "root" {
		return c.root
	}
	if part := c.parts[name]; part != nil {
		return part
	}
	for _, part := range c.parts {
		if part.ID != "" && part.ID == name {
			return part
		}
	}
	return nil
}

// step finds the part of a value that the schema to was applied to, by p. It is not named if it is the value itself.
func (c *Compiled) step(p, to *schemaPart, value any) (name string, part any) {
	var names []string // of those that it may be
	parts := map[string]any{}
	candidate := func(name string, part any) {
		names, parts[name] = append(names, name), part
	}
	switch v := value.(type) {
	case terseList:
		for i, item := range v {
			if i < len(p.first) && p.first[i] == to || i >= len(p.first) && slices.Contains(p.items, to) {
				candidate(strconv.Itoa(i), item)
			}
		}
	case terseObject:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			switch {
			case p.names == to:
				candidate(name, terseText(name))
			case p.unevaluated == to && p.evaluates(name):
			case slices.Contains(p.forMember(name), to):
				candidate(name, v[name])
			}
		}
	}
	if len(names) == 0 {
		return "", value
	}
	if len(names) > 1 {
		if alone, err := c.alone(to); err == nil {
			for _, name := range names[:len(names)-1] {
				if alone.Validate(parts[name]) != nil {
					return name, parts[name]
				}
			}
		}
	}
	name = names[len(names)-1]
	return name, parts[name]
}

// evaluates reports whether something but "unevaluatedProperties" may be applied to a member.
func (p *schemaPart) evaluates(name string) bool {
	for _, part := range p.forMember(name) {
		if part != p.unevaluated {
			return true
		}
	}
	return slices.ContainsFunc(slices.Concat(p.here, p.either), func(part *schemaPart) bool { return part.evaluates(name) })
}

// allowed names the properties that an object may have, if they are few.
func (p *schemaPart) allowed() string {
	if n := len(p.Properties); n == 0 || n > maxNamed {
		return ""
	}
	return "; allowed are " + strings.Join(slices.Sorted(maps.Keys(p.Properties)), ", ")
}

// maxNamed is how many properties a message names.
const maxNamed = 20

// problem words what the library says of a value: "type: 1 has type "integer", want "string"".
func (p *schemaPart) problem(said string, value any) string {
	keyword, _, _ := strings.Cut(said, ":")
	if names, ok := strings.CutPrefix(said, "unexpected additional properties "); ok {
		return "additional properties " + nameList(names) + " not allowed" + p.allowed()
	}
	source, _ := json.Marshal(p.Schema)
	if string(source) == "false" {
		return "is not allowed"
	}
	var keywords map[string]json.RawMessage
	_ = json.Unmarshal(source, &keywords) // a schema that is true says nothing
	want := clip(string(keywords[keyword]))
	switch keyword {
	case "type":
		types := p.Types
		if p.Type != "" {
			types = []string{p.Type}
		}
		return fmt.Sprintf("got %s, want %s", typeOf(value), strings.Join(types, " or "))
	case "enum":
		var values []json.RawMessage
		_ = json.Unmarshal(keywords["enum"], &values)
		return "value must be one of " + clip(string(joined(values)))
	case "const":
		return "value must be " + want
	case "required":
		_, names, _ := strings.Cut(said, "properties: ")
		return "missing properties " + nameList(names)
	case "pattern":
		return "does not match pattern " + want
	case "anyOf":
		return "must fit one of " + want
	case "oneOf":
		return "must fit exactly one of " + want
	case "contains":
		return "no item fits " + want
	case "not":
		return "must not fit " + want
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
		"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
		return fmt.Sprintf("%s: got %s, want %s", keyword, amountOf(value), want)
	}
	return clip(said)
}

func joined(values []json.RawMessage) []byte {
	var b []byte
	for i, v := range values {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(b, v...)
	}
	return b
}

// nameList writes ["b" "a"] as "a", "b".
func nameList(list string) string {
	names := strings.Split(strings.Trim(list, "[]"), `" "`)
	for i := range names {
		names[i] = `"` + strings.Trim(names[i], `"`) + `"`
	}
	slices.Sort(names)
	return clip(strings.Join(names, ", "))
}

func typeOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case float64:
		return "number"
	}
	return fmt.Sprint(value)
}

// amountOf is what a bound is about.
func amountOf(value any) string {
	switch v := value.(type) {
	case terseText:
		return strconv.Itoa(utf8.RuneCountInString(string(v)))
	case terseList:
		return strconv.Itoa(len(v))
	case terseObject:
		return strconv.Itoa(len(v))
	}
	b, _ := json.Marshal(value)
	return string(b)
}
