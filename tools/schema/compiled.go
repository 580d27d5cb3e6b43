package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"runnel/internal/shorten"
)

// compiled is a schema as the library validates with it, and its tree, which tells what a validation costs.
type compiled struct {
	*tree
	resolved *jsonschema.Resolved
}

// compile compiles a schema of draft 2020-12, or of draft-07 if its $schema says so. The error is an [*Error]
// with a place in the schema. Nothing is loaded: a reference to another document is an error.
func compile(source []byte) (*compiled, error) {
	if err := json.Unmarshal(source, &json.RawMessage{}); err != nil {
		return nil, &Error{nil, err.Error()}
	}
	var all any
	in := json.NewDecoder(bytes.NewReader(source))
	in.UseNumber() // a float64 has a smaller range
	_ = in.Decode(&all)
	if depth(all) > maxDepth {
		return nil, &Error{nil, fmt.Sprintf("it is nested too deep: more than %d levels", maxDepth)}
	}
	s := &jsonschema.Schema{}
	if err := json.Unmarshal(source, s); err != nil {
		return nil, misread(all, nil, err, func(v any) any { return v })
	}
	switch strings.TrimPrefix(strings.TrimPrefix(strings.TrimSuffix(s.Schema, "#"), "http://"), "https://") {
	case "", "json-schema.org/draft/2020-12/schema", "json-schema.org/schema":
		s.Schema = draft2020
	case "json-schema.org/draft-07/schema":
		s.Schema = draft07
	default:
		return nil, &Error{[]string{"$schema"},
			fmt.Sprintf("%q is not known here; use %s or %s", s.Schema, draft2020, draft07)}
	}
	t, err := newTree(s)
	if err == nil {
		err = t.checkCost()
	}
	if err != nil {
		return nil, err
	}
	resolved, err := s.Resolve(&jsonschema.ResolveOptions{BaseURI: baseURI.String()})
	if err != nil {
		return nil, &Error{nil, strings.TrimPrefix(err.Error(), "jsonschema: ")}
	}
	return &compiled{t, resolved}, nil
}

// maxDepth bounds how deep a schema is nested, like that of a config file. The library's time for reading one
// grows with its square.
const maxDepth = 100

// depth returns how deep a value is nested.
func depth(v any) (levels int) {
	for _, inner := range members(v) {
		levels = max(levels, depth(inner)+1)
	}
	return levels
}

// misread finds the place of the library's error err about v, since the library names none: the innermost
// value that it cannot read even without the values beside it. in wraps v in the values that surround it. If
// all members of v can be read alone, the mistake is v itself, such as a member that is there twice.
func misread(v any, place []string, err error, in func(any) any) *Error {
	for name, inner := range members(v) {
		alone := func(inner any) any {
			if _, list := v.([]any); list {
				return in([]any{inner})
			}
			return in(map[string]any{name: inner})
		}
		if err := unreadable(alone(inner)); err != nil {
			return misread(inner, at(place, name), err, alone)
		}
	}
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		got, _, _ := strings.Cut(kind.Value, " ")
		return &Error{place, "cannot be of type " + got}
	}
	return &Error{place, err.Error()}
}

func unreadable(schema any) error {
	source, err := json.Marshal(schema)
	if err == nil {
		err = json.Unmarshal(source, &jsonschema.Schema{})
	}
	return err
}

// members yields the members of an object, sorted by name, or the items of a list.
func members(v any) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		object, _ := v.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(object)) {
			if !yield(name, object[name]) {
				return
			}
		}
		list, _ := v.([]any)
		for i, item := range list {
			if !yield(strconv.Itoa(i), item) {
				return
			}
		}
	}
}

// check returns the first mistake in a value from readValue, nil if it is valid. size is the length of its
// JSON in bytes.
func (c *compiled) check(value any, size int) *Error {
	// The library cannot be interrupted, and a schema that applies itself twice to each inner value does so
	// 2^depth times.
	const (
		steps             = 60_000      // 200 ms at worst: a step takes 1 µs, or 3 µs if it fails
		most, mostPerByte = 16 << 20, 8 // bytes of errors
	)
	// A step for each byte: a large value takes long with any schema.
	e := &effort{tree: c.tree, steps: steps + min(size, 2_000_000)}
	if e.apply(c.parts[0], value); e.steps < 0 || e.most > most+mostPerByte*size {
		return &Error{nil, "the schema explodes on this value, which is too deep or too large for it"}
	}
	if err := c.resolved.Validate(value); err != nil {
		return c.narrow(c.explain(err, value), value)
	}
	return nil
}

// narrow returns the mistake that is named of several, and wrong if there is only one: the library looks at
// the members of an object in no order, and equal calls should give equal errors. It looks at each member
// without those beside it, in the order of their names.
func (c *compiled) narrow(wrong *Error, value any) *Error {
	const steps = 200 // of a validation, which is repeated for each member
	e := &effort{tree: c.tree, steps: steps}
	if e.apply(c.parts[0], value); e.steps < 0 {
		return wrong
	}
	alone := func(v any) any { return v }
	for depth := 0; ; depth++ {
		object, _ := value.(terseObject)
		if len(object) > maxNamed || depth > maxFitted {
			return wrong
		}
		found := false
		for _, name := range slices.Sorted(maps.Keys(object)) {
			around := alone
			with := func(v any) any { return around(terseObject{name: v}) }
			err := c.resolved.Validate(with(object[name]))
			if err == nil {
				continue
			}
			w := c.explain(err, with(object[name]))
			if len(w.Place) <= depth || w.Place[depth] != name && w.Place[depth] != "*" {
				continue // it is about a member that this object lacks
			}
			w.Place[depth] = name
			if depth > 0 {
				copy(w.Place, wrong.Place[:depth])
			}
			wrong = w
			value = object[name]
			alone = with
			found = true
			break
		}
		if !found {
			return wrong
		}
	}
}

// explain finds the place in the library's error: "validating root: validating /properties/a/items: type: 1
// has type ...". The schemas that it names lead to the place in the value, except for the index of an item
// and the name of a member that no schema names.
func (c *compiled) explain(err error, value any) *Error {
	wrong := &Error{}
	last := c.parts[0]
	for inner := errors.Unwrap(err); inner != nil; err, inner = inner, errors.Unwrap(inner) {
		name := strings.TrimPrefix(strings.TrimSuffix(err.Error(), ": "+inner.Error()), "validating ")
		if p := c.names[name]; p != nil {
			if slices.Contains(last.inner, p) {
				wrong.Place = append(wrong.Place, step(p.place[len(last.place):])...)
			}
			last = p
		}
	}
	said := err.Error()
	if strings.HasPrefix(said, "required: ") || strings.HasPrefix(said, "dependentRequired[") {
		_, names, _ := strings.Cut(said, "missing properties")
		wrong.missing(last, quoted(strings.TrimLeft(names, ": ")))
		return wrong
	}
	wrong.Problem = last.words(said)
	// The library does not say what came.
	if strings.HasPrefix(wrong.Problem, "must fit ") || strings.HasPrefix(wrong.Problem, "must not fit ") {
		wrong.Problem += came(printed(value, wrong.Place) + " ")
	}
	return wrong
}

// printed returns the value at a place as the library prints it, "" if the place is not known exactly.
func printed(value any, place []string) string {
	for _, name := range place {
		object, _ := value.(terseObject)
		var ok bool
		if value, ok = object[name]; !ok {
			return ""
		}
	}
	return fmt.Sprint(value)
}

// missing says that members of an object are missing, which p describes. The place is that of the first one.
func (e *Error) missing(p *part, names []string) {
	e.Place = at(e.Place, names[0])
	for i, name := range names {
		if i > 0 {
			e.Problem += fmt.Sprintf("; %q ", name)
		}
		e.Problem += "is missing"
		if s := p.Properties[name]; s != nil {
			e.Problem += about(s)
		}
	}
}

// about returns what a schema says about its values, for a person: ": a number ("how many")".
func about(s *jsonschema.Schema) (said string) {
	if types := typeWords(s); types != "" {
		said = ": " + types
	}
	if s.Description != "" {
		said += fmt.Sprintf(" (%q)", shorten.Clip(s.Description, 100))
	}
	return said
}

// typeWords returns the types of a schema in words: "an integer or null".
func typeWords(s *jsonschema.Schema) string {
	words := map[string]string{"array": "an array", "boolean": "true or false", "integer": "an integer",
		"null": "null", "number": "a number", "object": "an object", "string": "a string"}
	var list []string
	for _, name := range append(slices.Clip(s.Types), s.Type) {
		if name != "" {
			list = append(list, words[name])
		}
	}
	return strings.Join(list, " or ")
}

// quoted reads the names that Go has printed with %q: ["a" "b"].
func quoted(list string) (names []string) {
	for list = strings.Trim(list, "[]"); list != ""; list = strings.TrimPrefix(list, " ") {
		name, err := strconv.QuotedPrefix(list)
		if err != nil {
			break
		}
		list = list[len(name):]
		name, _ = strconv.Unquote(name)
		names = append(names, name)
	}
	return names
}

// step returns the way from a value to the inner value that a keyword of its schema applies to.
func step(keyword []string) []string {
	switch keyword[0] {
	case "properties", "prefixItems":
		return keyword[1:]
	case "items":
		if len(keyword) > 1 {
			return keyword[1:]
		}
		return []string{"*"}
	case "additionalProperties", "patternProperties", "unevaluatedProperties", "additionalItems",
		"unevaluatedItems":
		return []string{"*"}
	case "propertyNames":
		return []string{"its names"}
	}
	return nil
}

// limits are the words for keywords that bound a value.
var limits = map[string]string{
	"enum": "must be one of %s", "const": "must be %s",
	"anyOf": "must fit one of %s", "oneOf": "must fit exactly one of %s", "not": "must not fit %s",
	"minimum": "must be at least %s", "maximum": "must be at most %s",
	"multipleOf":       "must be a multiple of %s",
	"exclusiveMinimum": "must be more than %s", "exclusiveMaximum": "must be less than %s",
	"minLength": "must have at least %s characters", "maxLength": "must have at most %s characters",
	"pattern":  "must match the regular expression %s",
	"minItems": "must have at least %s items", "maxItems": "must have at most %s items",
	"uniqueItems": "must not have equal items",
	"contains":    "must have an item that fits %s", "minContains": "must have at least %s items that fit",
	"maxContains":   "must have at most %s items that fit",
	"minProperties": "must have at least %s members", "maxProperties": "must have at most %s members",
}

// words returns the library's words about a value, such as "type: 1 has type "integer", want "string"", in
// plain English: what was expected, as JSON that a reader can copy, and what came.
func (p *part) words(said string) string {
	if list, ok := strings.CutPrefix(said, "unexpected additional properties "); ok {
		names := quoted(list)
		slices.Sort(names)
		for i := range names {
			names[i] = strconv.Quote(names[i])
		}
		said = "additional properties " + clip(strings.Join(names, ", ")) + " not allowed"
		if n := len(p.Properties); n > 0 && n <= maxNamed {
			said += "; allowed are " + strings.Join(slices.Sorted(maps.Keys(p.Properties)), ", ")
		}
		return clip(said)
	}
	keyword, rest, _ := strings.Cut(said, ": ")
	if keyword == "type" {
		return "must be " + typeWords(p.Schema) + came(rest)
	}
	limit := limits[keyword]
	if limit == "" {
		return clip(said)
	}
	source, _ := json.Marshal(p.Schema)
	var keywords map[string]json.RawMessage
	if json.Unmarshal(source, &keywords) != nil { // the schema false
		return "is not allowed"
	}
	if !strings.Contains(limit, "%s") {
		return limit
	}
	return fmt.Sprintf(limit, clip(string(keywords[keyword]))) + came(rest)
}

// came returns the value at the beginning of the library's words, for a message: ", but is "x"". It is empty
// for words that begin with no value.
func came(said string) string {
	if value, err := strconv.QuotedPrefix(said); err == nil {
		value, _ = strconv.Unquote(value)
		return fmt.Sprintf(", but is %q", shorten.Clip(value, 40))
	}
	value, rest, _ := strings.Cut(strings.NewReplacer("<invalid reflect.Value>", "null", "<nil>", "null").
		Replace(said), " ")
	switch number, ok := new(big.Rat).SetString(value); {
	case ok:
		exact, _ := number.Float64()
		return ", but is " + strconv.FormatFloat(exact, 'g', -1, 64)
	case value == "null" || value == "true" || value == "false":
		return ", but is " + value
	case value == "array" || value == "object": // "array length 3 is", "object has 3 properties"
		rest = strings.TrimPrefix(strings.TrimPrefix(rest, "length "), "has ")
		count, _, _ := strings.Cut(rest, " ")
		return ", but has " + count
	case strings.HasPrefix(said, "an object ") || strings.HasPrefix(said, "an array "):
		return ", but is " + strings.Join(strings.Fields(said)[:2], " ")
	}
	return ""
}

// maxNamed is how many allowed properties a message lists.
const maxNamed = 20
