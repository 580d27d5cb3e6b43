package schema

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

// maxSchemaCost bounds how often parts of a schema are applied to one value. A schema without references has
// some hundreds of parts. With $ref, each of n definitions can apply the next one twice, so that the last one
// is applied 2^n times.
const maxSchemaCost = 50_000

// checkCost refuses a schema whose parts would be applied too often, or in which a part applies itself to the
// same value again.
func (t *tree) checkCost() error {
	e := &effort{tree: t, steps: maxSchemaCost}
	for _, p := range t.parts {
		if e.apply(p, nil); e.steps < 0 {
			return &Error{p.place, fmt.Sprintf("explodes or refers to itself without end: more than %d "+
				"parts would be applied to one value", maxSchemaCost)}
		}
	}
	if t.parts[0].cost(map[*part]int{}) >= maxSchemaCost {
		return &Error{nil, fmt.Sprintf("the schema explodes: by its references, more than %d parts of it "+
			"would be applied to one value", maxSchemaCost)}
	}
	return nil
}

// cost counts the parts of a schema; a part counts each time that it is referred to. known holds the counts
// so far, and 1 for a part that is being counted: a reference back to it ends with the value's depth.
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

// effort counts what a validation by the library would take.
type effort struct {
	*tree
	steps int // that are left
	most  int // bytes of errors in memory at the same time
}

// errorSize is how large an error about a value can become, in bytes: its text, and that text together with
// the errors that it wraps. Each schema around the value repeats the text after its own place, and anyOf
// joins the texts of all its errors.
type errorSize struct{ text, held int }

func (s *errorSize) orElse(other errorSize) {
	s.text, s.held = max(s.text, other.text), max(s.held, other.held)
}

// apply counts the steps of applying p to a value, which may be valid or not.
func (e *effort) apply(p *part, value any) (size errorSize) {
	if e.steps -= p.steps; e.steps < 0 {
		return size
	}
	for _, to := range p.here {
		size.orElse(e.apply(to, value))
	}
	var all errorSize // of all parts of anyOf together
	for _, s := range p.AnyOf {
		one := e.apply(e.of[s], value)
		all.text += one.text
		all.held += one.held
	}
	e.most = max(e.most, all.held+all.text)
	size.orElse(errorSize{all.text, all.text})
	quoted := 0
	switch v := value.(type) {
	case terseText:
		if p.Pattern != "" || p.MinLength != nil || p.MaxLength != nil {
			quoted = len(v)
			e.steps -= e.patterns.all[p.Pattern].steps(len(v))
		}
	case terseList:
		size.orElse(e.applyToItems(p, v))
	case terseObject:
		size.orElse(e.applyToMembers(p, v))
		if p.AdditionalProperties != nil { // it may be false, and the error then lists them
			for name := range v {
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

// applyInner applies a schema in a part to an inner value; nil: none.
func (e *effort) applyInner(s *jsonschema.Schema, value any) (size errorSize) {
	if s != nil {
		size = e.apply(e.of[s], value)
	}
	return size
}

func (e *effort) applyToItems(p *part, list terseList) (size errorSize) {
	if p.UniqueItems {
		e.steps -= values(list)
	}
	first := append(slices.Clip(p.PrefixItems), p.ItemsArray...)
	for i, item := range list {
		if i < len(first) {
			size.orElse(e.applyInner(first[i], item))
		}
		for _, s := range []*jsonschema.Schema{p.Items, p.AdditionalItems, p.Contains, p.UnevaluatedItems} {
			size.orElse(e.applyInner(s, item))
		}
	}
	return size
}

func (e *effort) applyToMembers(p *part, object terseObject) (size errorSize) {
	for name, member := range object {
		known := p.Properties[name]
		size.orElse(e.applyInner(known, member))
		for pattern, s := range p.PatternProperties {
			of := e.patterns.all[pattern]
			if e.steps -= of.steps(len(name)); e.steps < 0 {
				return size
			}
			if of.MatchString(name) {
				known = s
				size.orElse(e.applyInner(s, member))
			}
		}
		if known == nil {
			size.orElse(e.applyInner(p.AdditionalProperties, member))
		}
		size.orElse(e.applyInner(p.UnevaluatedProperties, member))
		size.orElse(e.applyInner(p.PropertyNames, terseText(name)))
	}
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

// These limit all patterns of a schema together. Most patterns compile to some dozens of instructions. With
// counts, such as (x{100}){10}, a few bytes make millions, and matching may take each of them for each byte
// of the text.
const (
	maxPatternBytes = 16 << 10
	maxInstructions = 50_000
)

// pattern is a compiled pattern.
type pattern struct {
	*regexp.Regexp
	size int // about how many instructions it has
}

// steps returns the steps of matching a text of a length in bytes. An instruction takes some 10 ns per byte,
// a step of effort 1 µs.
func (p pattern) steps(bytes int) int { return p.size * (bytes + 1) / 100 }

// patterns holds the patterns of a schema.
type patterns struct {
	all                 map[string]pattern // by their text
	bytes, instructions int                // of all together
}

// add compiles a pattern, unless all patterns together are too large.
func (p *patterns) add(text string, place []string) error {
	tooLarge := &Error{place, fmt.Sprintf("the schema explodes: its patterns are larger than %d bytes or "+
		"%d steps together", maxPatternBytes, maxInstructions)}
	if p.bytes += len(text); p.bytes > maxPatternBytes {
		return tooLarge
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return &Error{place, fmt.Sprintf("%q is not a regular expression: %v", clip(text), err)}
	}
	size := instructions(parsed)
	if p.instructions += size; p.instructions > maxInstructions {
		return tooLarge
	}
	p.all[text] = pattern{regexp.MustCompile(text), size}
	return nil
}

// instructions estimates the instructions of a compiled pattern, maxInstructions+1 at most.
func instructions(re *syntax.Regexp) int {
	n := 1
	switch re.Op {
	case syntax.OpLiteral:
		n = len(re.Rune)
	case syntax.OpCharClass:
		n += len(re.Rune) / 16 // its ranges take memory
	}
	for _, part := range re.Sub {
		n = min(n+instructions(part), maxInstructions+1)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max) + 1
	}
	return min(n, maxInstructions+1)
}
