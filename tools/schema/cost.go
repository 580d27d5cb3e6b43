package schema

import (
	"fmt"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

// maxSchemaCost bounds how often parts of a schema are applied to one value. Written out, a schema has no more than some
// hundreds; by $ref each of n definitions may apply the next one twice, and the last is applied 2^n times.
const maxSchemaCost = 50_000

// checkCost refuses a schema that explodes, or of which a part applies itself to the same value again.
func (t *tree) checkCost() error {
	e := &effort{tree: t, steps: maxSchemaCost}
	for _, p := range t.parts {
		if e.apply(p, nil); e.steps < 0 {
			return &Error{p.place, fmt.Sprintf("explodes or refers to itself without end: more than %d parts would be applied to one value", maxSchemaCost)}
		}
	}
	if t.parts[0].cost(map[*part]int{}) >= maxSchemaCost {
		return &Error{nil, fmt.Sprintf("the schema explodes: by its references, more than %d parts of it would be applied to one value", maxSchemaCost)}
	}
	return nil
}

// cost counts the parts of a schema, those that are referred to each time anew. known are those that have been counted,
// 1 while they are open: a reference back to them ends with the value's depth.
func (p *part) cost(known map[*part]int) int {
	if c, ok := known[p]; ok {
		return c
	}
	known[p] = 1
	c := 1
	for _, to := range slices.Concat(p.inner, p.refs) {
		c = min(c+to.cost(known), maxSchemaCost)
	}
	known[p] = c
	return c
}

// affordable reports whether a value, whose JSON has so many bytes, can be validated in reasonable time and memory: the library
// cannot be interrupted, and a schema that applies itself twice to a part of a value does so 2^depth times.
func (t *tree) affordable(p *part, value any, size int) bool {
	const (
		steps             = 60_000      // 200 ms at worst: a step takes 1 µs, and where it fails and is told of 3 µs
		most, mostPerByte = 16 << 20, 8 // bytes of errors
	)
	e := &effort{tree: t, steps: steps + min(size, 2_000_000)} // a step for each byte: what is large takes its time with any schema
	e.apply(p, value)
	return e.steps >= 0 && e.most <= most+mostPerByte*size
}

// effort counts what the library would do.
type effort struct {
	*tree
	steps int // left
	most  int // bytes of errors at once
}

// errorSize is how large the error about a value can get: its text, and with it the errors that it wraps. Each schema
// that a value is in writes the text anew, after its own place; anyOf makes one text of all its errors.
type errorSize struct{ text, held int }

func (s *errorSize) orElse(other errorSize) {
	s.text, s.held = max(s.text, other.text), max(s.held, other.held)
}

// apply takes the steps of applying p to a value, whether or not it fits.
func (e *effort) apply(p *part, value any) (size errorSize) {
	if e.steps -= p.steps; e.steps < 0 {
		return size
	}
	apply := func(s *jsonschema.Schema, value any) {
		if s != nil {
			size.orElse(e.apply(e.of[s], value))
		}
	}
	for _, to := range p.here {
		size.orElse(e.apply(to, value))
	}
	var either errorSize
	for _, s := range p.AnyOf {
		one := e.apply(e.of[s], value)
		either.text, either.held = either.text+one.text, either.held+one.held
	}
	e.most = max(e.most, either.held+either.text)
	size.orElse(errorSize{either.text, either.text})
	quoted := 0
	switch v := value.(type) {
	case terseText:
		if p.Pattern != "" || p.MinLength != nil || p.MaxLength != nil {
			quoted = len(v)
			e.steps -= e.patterns.all[p.Pattern].steps(len(v))
		}
	case terseList:
		if p.UniqueItems {
			e.steps -= values(v)
		}
		first := append(slices.Clip(p.PrefixItems), p.ItemsArray...)
		for i, item := range v {
			if i < len(first) {
				apply(first[i], item)
			}
			for _, s := range []*jsonschema.Schema{p.Items, p.AdditionalItems, p.Contains, p.UnevaluatedItems} {
				apply(s, item)
			}
		}
	case terseObject:
		for name, member := range v {
			known := p.Properties[name]
			apply(known, member)
			for pattern, s := range p.PatternProperties {
				of := e.patterns.all[pattern]
				if e.steps -= of.steps(len(name)); e.steps < 0 {
					return size
				}
				if of.MatchString(name) {
					known = s
					apply(s, member)
				}
			}
			if known == nil {
				apply(p.AdditionalProperties, member)
			}
			apply(p.UnevaluatedProperties, member)
			if p.PropertyNames != nil {
				apply(p.PropertyNames, terseText(name))
			}
			if p.AdditionalProperties != nil { // which may forbid them
				quoted += len(name)
			}
		}
	}
	const reason = 100 // bytes
	size.text = max(size.text, quoted+reason) + len("validating : ") + len(p.pointer)
	size.held += size.text
	e.most = max(e.most, size.held)
	return size
}

// values is how many values there are in one, and itself.
func values(v any) (n int) {
	switch v := v.(type) {
	case terseList:
		for _, item := range v {
			n += values(item)
		}
	case terseObject:
		for _, member := range v {
			n += values(member)
		}
	}
	return n + 1
}
