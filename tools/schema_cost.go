package tools

import (
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxSchemaCost bounds how often parts of a schema are applied to one value. Written out, a schema has no more than some
// hundreds; by $ref each of n definitions may apply the next one twice, and the last is applied 2^n times.
const maxSchemaCost = 100_000

// schemaCost counts the parts of a schema, those that are referred to each time anew.
type schemaCost struct {
	known map[*jsonschema.Schema]int
	open  map[*jsonschema.Schema]bool // on the way from the root: a reference back to them ends with the value's depth
}

// checkSchemaCost refuses a schema that explodes.
func checkSchemaCost(s *jsonschema.Schema) error {
	c := schemaCost{known: map[*jsonschema.Schema]int{}, open: map[*jsonschema.Schema]bool{}}
	if c.of(s) >= maxSchemaCost {
		return fmt.Errorf("the schema explodes: by its references, more than %d parts of it would be applied to one value", maxSchemaCost)
	}
	return nil
}

func (c *schemaCost) of(s *jsonschema.Schema) int {
	if s == nil {
		return 0
	}
	if n, ok := c.known[s]; ok {
		return n
	}
	if c.open[s] {
		return 1
	}
	c.open[s] = true
	n := 1
	add := func(parts ...*jsonschema.Schema) {
		for _, part := range parts {
			n = min(n+c.of(part), maxSchemaCost)
		}
	}
	add(s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else, s.PropertyNames, s.UnevaluatedProperties,
		s.UnevaluatedItems, s.Contains, s.Items2020, s.ContentSchema)
	if s.DynamicRef != nil {
		add(s.DynamicRef.Ref)
	}
	for _, list := range [][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf, s.PrefixItems} {
		add(list...)
	}
	for _, named := range []map[string]*jsonschema.Schema{s.Properties, s.DependentSchemas} {
		for _, part := range named {
			add(part)
		}
	}
	for _, part := range s.PatternProperties {
		add(part)
	}
	for _, either := range []any{s.AdditionalProperties, s.Items, s.AdditionalItems} {
		switch part := either.(type) {
		case *jsonschema.Schema:
			add(part)
		case []*jsonschema.Schema:
			add(part...)
		}
	}
	for _, either := range s.Dependencies {
		if part, ok := either.(*jsonschema.Schema); ok {
			add(part)
		}
	}
	delete(c.open, s)
	c.known[s] = n
	return n
}
