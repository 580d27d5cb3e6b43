package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

// maxSchemaCost bounds how often parts of a schema are applied to one value. Written out, a schema has no more than some
// hundreds; by $ref each of n definitions may apply the next one twice, and the last is applied 2^n times.
const maxSchemaCost = 100_000

// checkCost refuses a schema that explodes, or of which a part applies itself to the same value again.
func (c *Compiled) checkCost() error {
	known := map[*schemaPart]bool{}
	for _, pointer := range slices.Sorted(maps.Keys(c.parts)) {
		if loop := c.parts[pointer].loop(known); loop != nil {
			return &Error{loop.place, "refers to itself without end"}
		}
	}
	if c.root.cost(map[*schemaPart]int{}) >= maxSchemaCost {
		return &Error{nil, fmt.Sprintf("the schema explodes: by its references, more than %d parts of it would be applied to one value", maxSchemaCost)}
	}
	return nil
}

// parts are those that p applies to a value or to what is in it.
func (p *schemaPart) parts() []*schemaPart {
	parts := slices.Concat(p.here, p.either, p.first, p.items)
	for _, part := range p.members {
		parts = append(parts, part)
	}
	for _, pattern := range p.patterns {
		parts = append(parts, pattern.part)
	}
	for _, part := range []*schemaPart{p.additional, p.unevaluated, p.names} {
		if part != nil {
			parts = append(parts, part)
		}
	}
	return parts
}

// loop finds a part that is applied to a value to which it is being applied already. known are those that have been
// looked at, true while they are open.
func (p *schemaPart) loop(known map[*schemaPart]bool) *schemaPart {
	if open, ok := known[p]; ok {
		if open {
			return p
		}
		return nil
	}
	known[p] = true
	for _, part := range slices.Concat(p.here, p.either) {
		if loop := part.loop(known); loop != nil {
			return loop
		}
	}
	known[p] = false
	return nil
}

// cost counts the parts of a schema, those that are referred to each time anew. known are those that have been counted,
// 1 while they are open: a reference back to them ends with the value's depth.
func (p *schemaPart) cost(known map[*schemaPart]int) int {
	if c, ok := known[p]; ok {
		return c
	}
	known[p] = 1
	c := 1
	for _, part := range p.parts() {
		c = min(c+part.cost(known), maxSchemaCost)
	}
	known[p] = c
	return c
}

// affordable reports whether a value, whose JSON has so many bytes, can be validated in reasonable time and memory: the library
// cannot be interrupted, and a schema that applies itself twice to a part of a value does so 2^depth times.
func (c *Compiled) affordable(value any, size int) bool {
	const (
		steps             = 60_000      // 200 ms at worst: a step takes 1 µs, and where it fails and is told of 3 µs
		most, mostPerByte = 16 << 20, 8 // of errors
	)
	e := &effort{steps: steps + min(size, 2_000_000)} // a step for each byte: what is large takes its time with any schema
	e.apply(c.root, value)
	return e.steps >= 0 && e.most <= most+mostPerByte*size
}

// effort counts what the library would do.
type effort struct {
	steps int // left
	most  int // bytes of errors at once
}

// errorSize is how large the error about a value can get: its text, and with it the errors that it wraps. Each schema
// that a value is in writes the text anew, behind its own place; anyOf makes one text of all its errors.
type errorSize struct{ text, held int }

func (s *errorSize) orElse(other errorSize) {
	s.text, s.held = max(s.text, other.text), max(s.held, other.held)
}

func (s *errorSize) with(other errorSize) { s.text, s.held = s.text+other.text, s.held+other.held }

// apply takes the steps of applying p to a value, whether or not it fits.
func (e *effort) apply(p *schemaPart, value any) (size errorSize) {
	if e.steps -= p.steps; e.steps < 0 {
		return size
	}
	for _, part := range p.here {
		size.orElse(e.apply(part, value))
	}
	var either errorSize
	for _, part := range p.either {
		either.with(e.apply(part, value))
	}
	e.most = max(e.most, either.held+either.text)
	size.orElse(errorSize{either.text, either.text})
	quoted := 0
	switch v := value.(type) {
	case terseText:
		if p.Pattern != "" || p.MinLength != nil || p.MaxLength != nil {
			quoted = len(v)
			e.steps -= p.pattern.steps(len(v))
		}
	case terseList:
		if p.UniqueItems {
			e.steps -= values(v)
		}
		for i, item := range v {
			if i < len(p.first) {
				size.orElse(e.apply(p.first[i], item))
			}
			for _, part := range p.items {
				size.orElse(e.apply(part, item))
			}
		}
	case terseObject:
		for name, member := range v {
			for _, pattern := range p.patterns {
				e.steps -= pattern.size.steps(len(name))
			}
			if e.steps < 0 {
				return size
			}
			for _, part := range p.forMember(name) {
				size.orElse(e.apply(part, member))
			}
			if p.names != nil {
				size.orElse(e.apply(p.names, terseText(name)))
			}
			if p.additional != nil { // which may forbid them
				quoted += len(name)
			}
		}
	}
	const reason = 50 // bytes
	size.text = max(size.text, quoted+reason) + len("validating : ") + len(p.pointer)
	size.held += size.text
	e.most = max(e.most, size.held)
	return size
}

// ownSteps are those of applying a schema to a value, but for what it applies to it in turn.
func ownSteps(s *jsonschema.Schema) int {
	const equal, looked = 64, 8 // bytes that are compared in a step, names that are looked up
	listed, _ := json.Marshal([]any{s.Enum, s.Const})
	return 1 + len(listed)/equal + (len(s.Properties)+len(s.Required))/looked
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

// forMember are the parts that may be applied to a member.
func (p *schemaPart) forMember(name string) []*schemaPart {
	var parts []*schemaPart
	if part := p.members[name]; part != nil {
		parts = append(parts, part)
	}
	for _, pattern := range p.patterns {
		if pattern.MatchString(name) {
			parts = append(parts, pattern.part)
		}
	}
	if len(parts) == 0 && p.additional != nil {
		parts = append(parts, p.additional)
	}
	if p.unevaluated != nil {
		parts = append(parts, p.unevaluated)
	}
	return parts
}
