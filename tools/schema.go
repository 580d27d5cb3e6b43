package tools

import (
	"cmp"
	"fmt"
	"strings"
	"sync"

	"runnel/tools/jsonschema"
)

// schema checks a tool's arguments. It is compiled when a shape does not do, so that a server with many tools starts at once.
type schema struct {
	source []byte
	of     string // what is checked, for messages; "" = argument

	once     sync.Once
	compiled *jsonschema.Schema
	err      error

	shapeOnce sync.Once
	shape     *shape // nil: the schema says more
}

// check returns an error that names each argument that is wrong and what is allowed, one a line.
func (s *schema) check(arguments []byte) error {
	s.shapeOnce.Do(func() { s.shape = shapeOf(s.source) })
	if s.shape != nil && s.shape.fits(arguments) {
		return nil
	}
	return s.checkSlowly(arguments)
}

func (s *schema) checkSlowly(arguments []byte) error {
	s.once.Do(func() { s.compiled, s.err = jsonschema.Compile(s.source) })
	if s.err != nil {
		return s.err
	}
	wrong, err := s.compiled.Validate(arguments)
	if err != nil {
		return fmt.Errorf("reading the arguments: %w", err)
	}
	if len(wrong) == 0 {
		return nil
	}
	of := cmp.Or(s.of, "argument")
	lines := make([]string, len(wrong))
	for i, w := range wrong {
		lines[i] = w.Problem
		if len(w.Place) > 0 { // packages/1 for ["packages", "1"], the way the argument was written
			lines[i] = fmt.Sprintf("%s %q: %s", of, strings.Join(w.Place, "/"), w.Problem)
		}
	}
	return fmt.Errorf("invalid %ss: %s", of, strings.Join(lines, "; "))
}
