package schema

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
)

// Checker checks values against a schema, such as a tool's arguments. The schema is compiled when it is first
// needed, so that a server with many tools starts at once.
type Checker struct {
	source []byte
	of     string // the kind of the values, for messages

	once     sync.Once
	compiled *compiled
	err      error
}

// New makes a Checker for the JSON text of a schema. of names in messages what the values are: "field",
// "member"; "" = "argument".
func New(source []byte, of string) *Checker {
	return &Checker{source: source, of: cmp.Or(of, "argument")}
}

// Compile returns the first mistake in the schema itself, an [*Error].
func (s *Checker) Compile() error {
	s.once.Do(func() { s.compiled, s.err = compile(s.source) })
	return s.err
}

// Check returns an error that says what is wrong with the arguments, a JSON text, and where.
func (s *Checker) Check(arguments []byte) error {
	if err := s.Compile(); err != nil {
		return err
	}
	value, err := readValue(arguments)
	if err != nil {
		return fmt.Errorf("reading the arguments: %w", err)
	}
	wrong := s.compiled.check(value, len(arguments))
	switch {
	case wrong == nil:
		return nil
	case len(wrong.Place) == 0:
		return fmt.Errorf("invalid %ss: %s", s.of, wrong.Problem)
	}
	return fmt.Errorf("invalid %ss: %s %q %s", s.of, s.of, strings.Join(wrong.Place, "/"), wrong.Problem)
}

// CheckProperty checks the JSON value of one property without the others, such as its default. The error is
// an [*Error].
func (s *Checker) CheckProperty(name string, source []byte) error {
	if err := s.Compile(); err != nil {
		return err
	}
	value, err := readValue(source)
	if err != nil {
		return &Error{nil, err.Error()}
	}
	wrong := s.compiled.check(terseObject{name: value}, len(source))
	if wrong == nil || len(wrong.Place) == 0 || wrong.Place[0] != name { // the rest of the schema is about whole calls
		return nil
	}
	wrong.Place = wrong.Place[1:]
	return wrong
}
