package schema

import (
	"fmt"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

// maxSchemaCost bounds how often parts of a schema are applied to one value. A schema without references has some hundreds of parts. With
// $ref, each of n definitions can apply the next one twice, so that the last one is applied 2^n times.
const maxSchemaCost = 50_000

// checkCost refuses a schema whose parts would be applied too often, or in which a part applies itself to the same value again.
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

// cost counts the parts of a schema; a part counts each time that it is referred to. known holds the counts so far, and 1 for a part that is
// being counted: a reference back to it ends with the value's depth.
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

// affordable reports whether a value can be validated in reasonable time and memory; size is the length of its JSON in bytes. The library
// cannot be interrupted, and a schema that applies itself twice to each inner value does so 2^depth times.
func (t *tree) affordable(p *part, value any, size int) bool {
	const (
		steps             = 60_000      // 200 ms at worst: a step takes 1 µs, or 3 µs if it fails
		most, mostPerByte = 16 << 20, 8 // bytes of errors
	)
	e := &effort{tree: t, steps: steps + min(size, 2_000_000)} // a step for each byte: a large value takes long with any schema
	e.apply(p, value)
	return e.steps >= 0 && e.most <= most+mostPerByte*size
}

// effort counts what a validation by the library would take.
type effort struct {
	*tree
	steps int // that are left
	most  int // bytes of errors in memory at the same time
}

// errorSize is how large an error about a value can become, in bytes: its text, and that text together with the errors that it wraps. Each
// schema around the value repeats the text after its own place, and anyOf joins the texts of all its errors.
type errorSize struct{ text, held int }

func (s *errorSize) orElse(other errorSize) {
	s.text, s.held = max(s.text, other.text), max(s.held, other.held)
}

// apply counts the steps of applying p to a value, which may be valid or not.
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
			if p.AdditionalProperties != nil { // it may be false, and the error then lists them
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

// values counts a value and all values in it.
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
