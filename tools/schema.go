package tools

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// schema checks a tool's arguments. It is compiled when a shape does not do, so that a server with many tools starts at once.
type schema struct {
	source []byte

	once     sync.Once
	compiled *jsonschema.Schema
	err      error

	shapeOnce sync.Once
	shape     *shape // nil: the schema says more
}

// CompileSchema compiles a tool's input schema (JSON Schema 2020-12 unless it names another draft).
// It loads nothing from outside: a $ref to another document is an error.
func CompileSchema(source []byte) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(source))
	if err != nil {
		return nil, fmt.Errorf("reading the input schema: %w", err)
	}
	const name = "input.json"
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if err := c.AddResource(name, doc); err != nil {
		return nil, err
	}
	compiled, err := c.Compile(name)
	if err != nil {
		return nil, err
	}
	return compiled, checkSchemaCost(compiled)
}

// noLoader refuses what a schema would load from files or the network.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("a schema may not refer to other documents: %s", url)
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
	s.once.Do(func() { s.compiled, s.err = CompileSchema(s.source) })
	if s.err != nil {
		return s.err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(arguments))
	if err != nil {
		return fmt.Errorf("reading the arguments: %w", err)
	}
	var invalid *jsonschema.ValidationError
	if err := s.compiled.Validate(value); !errors.As(err, &invalid) {
		return err
	}
	var lines []string
	for _, leaf := range leaves(invalid, nil) {
		what := fmt.Sprint(leaf.ErrorKind.LocalizedString(printer))
		if path := argumentPath(leaf.InstanceLocation); path != "" {
			what = fmt.Sprintf("argument %q: %s", path, what)
		}
		lines = append(lines, what)
	}
	return errors.New("invalid arguments: " + strings.Join(lines, "; "))
}

// leaves are the causes of e that have no causes of their own.
func leaves(e *jsonschema.ValidationError, to []*jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(e.Causes) == 0 {
		return append(to, e)
	}
	for _, cause := range e.Causes {
		to = leaves(cause, to)
	}
	return to
}

// printer words what is wrong.
var printer = message.NewPrinter(language.English)

// argumentPath writes ["packages", "1"] as packages/1, the way the argument was written.
func argumentPath(location []string) string { return strings.Join(location, "/") }
