// Package jsonschema checks JSON values with JSON Schemas, draft 2020-12 and those before it down to draft-06.
//
// It is here because of two things that its users need and libraries do not give together. It costs nothing until it is
// used: no meta-schema is compiled when the program starts, each keyword's value is checked as it is read. And what it
// finds wrong names its place, all of it at once, in the schema as in the value.
//
// Specifications: https://json-schema.org/draft/2020-12/json-schema-core and json-schema-validation. The tests run the
// official test suite. Left out: schemas in other documents, the meta-schemas included (a $ref to them is an error),
// and what asserts format and content*, which say something to people here. Patterns are Go's regular expressions.
package jsonschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Schema is a compiled schema. It may be used by many goroutines at once.
type Schema struct {
	root *node
}

// Error is something that is wrong with a schema, or with a value.
type Error struct {
	Place   []string // the names and indexes that lead to it; empty: the whole
	Problem string
}

func (e *Error) Error() string {
	if len(e.Place) == 0 {
		return e.Problem
	}
	return strings.Join(e.Place, "/") + ": " + e.Problem
}

// Validate returns all that is wrong with a value, nil if nothing is. err says that it is no JSON.
func (s *Schema) Validate(value []byte) (wrong []*Error, err error) {
	v, err := decode(value)
	if err != nil {
		return nil, err
	}
	const least, perByte = maxCost, 100 // a byte of a value is applied some parts of a schema, not thousands
	r := &run{steps: least + perByte*len(value)}
	wrong = r.apply(s.root, v, nil, nil, &seen{})
	if r.steps < 0 {
		return []*Error{{Problem: "the schema explodes on this value: too many parts of it apply"}}, nil
	}
	return wrong, nil
}

// decode reads one JSON value, numbers as they are written.
func decode(source []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(source))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more follows behind the JSON value")
	}
	return v, nil
}

// node is a schema or a part of it that is one itself.
type node struct {
	place    []string
	keywords map[string]any // nil for true and false
	resource *resource
	first    []check // about the value's kind: where one fails the others say nothing
	checks   []check
	parts    []*node // the nodes that it applies
}

// check is what a keyword says about a value, or some of them together.
type check func(r *run, v any, f *frame, s *seen) []*Error

// frame is one application of a node: what has been applied on the way to it, and to which part of the value.
type frame struct {
	node   *node
	outer  *frame
	inside bool // to a part of the value that outer was applied to; else to the same
	name   string
}

// place is where the value of a frame stands.
func (f *frame) place() (place []string) {
	for ; f != nil; f = f.outer {
		if f.inside {
			place = append(place, f.name)
		}
	}
	slices.Reverse(place)
	return place
}

func (f *frame) wrong(format string, args ...any) []*Error {
	return []*Error{{f.place(), fmt.Sprintf(format, args...)}}
}

// loops tells whether the frame's node is being applied to the same value already.
func (f *frame) loops() bool {
	for o := f; !o.inside && o.outer != nil; {
		if o = o.outer; o.node == f.node {
			return true
		}
	}
	return false
}

// run is one validation.
type run struct {
	steps int // left
}

// seen is which members and items of a value have been evaluated (core, 7.7 "Annotations").
type seen struct {
	members map[string]bool
	items   map[int]bool
}

func (s *seen) member(name string) {
	if s.members == nil {
		s.members = map[string]bool{}
	}
	s.members[name] = true
}

func (s *seen) item(i int) {
	if s.items == nil {
		s.items = map[int]bool{}
	}
	s.items[i] = true
}

// here applies a node to the value of a frame itself. What it evaluates counts if it is valid.
func (r *run) here(n *node, v any, f *frame, s *seen) []*Error {
	var own seen
	wrong := r.apply(n, v, f, nil, &own)
	if len(wrong) == 0 {
		for name := range own.members {
			s.member(name)
		}
		for i := range own.items {
			s.item(i)
		}
	}
	return wrong
}

// inside applies a node to a part of the value.
func (r *run) inside(n *node, part any, f *frame, name string) []*Error {
	return r.apply(n, part, f, &name, &seen{})
}

func (r *run) apply(n *node, v any, outer *frame, part *string, s *seen) []*Error {
	if r.steps--; r.steps < 0 {
		return []*Error{{}} // Validate says what it means
	}
	f := &frame{node: n, outer: outer}
	if part != nil {
		f.inside, f.name = true, *part
	}
	if f.loops() {
		return f.wrong("the schema refers to itself without end at %s", pointer(n.place))
	}
	for _, c := range n.first {
		if wrong := c(r, v, f, s); len(wrong) > 0 {
			return wrong
		}
	}
	var wrong []*Error
	for _, c := range n.checks {
		wrong = append(wrong, c(r, v, f, s)...)
	}
	return wrong
}

// maxCost bounds how often parts of a schema are applied to one value. Written out, a schema has no more than some
// hundreds; by $ref each of n definitions may apply the next one twice, and the last is applied 2^n times.
const maxCost = 100_000

// cost counts the parts of a schema, those that are referred to each time anew. open are those on the way from the
// root: a reference back to them ends with the value's depth, or in steps.
func (n *node) cost(known map[*node]int, open map[*node]bool) int {
	if c, ok := known[n]; ok {
		return c
	}
	if open[n] {
		return 1
	}
	open[n] = true
	c := 1
	for _, part := range n.parts {
		c = min(c+part.cost(known, open), maxCost)
	}
	delete(open, n)
	known[n] = c
	return c
}
