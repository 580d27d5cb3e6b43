package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// newCheckedCommand is NewCommand with errors about the input that name the place within it.
func newCheckedCommand(name string, config CommandConfig, env Environment) (*Command, error) {
	in, err := parseInputs(config.Input, config.Required)
	if err != nil {
		return nil, err
	}
	key := inputKey{whole: bytes.Equal(in.schema, config.Input)}
	compiled, err := CompileSchema(in.schema)
	if err != nil {
		return nil, key.schemaError(err)
	}
	for _, property := range in.names {
		if err := key.checkDefault(compiled, property, in.defaults[property]); err != nil {
			return nil, err
		}
	}
	return NewCommand(name, config, env)
}

// schemaError says where in "input" the schema is wrong.
func (k inputKey) schemaError(err error) error {
	var invalid *jsonschema.SchemaValidationError
	var detail *jsonschema.ValidationError
	if !errors.As(err, &invalid) || !errors.As(invalid.Err, &detail) {
		return &ConfigError{Key: "input", Problem: "is no JSON Schema: " + compileProblem(err), Allowed: "JSON Schema 2020-12"}
	}
	deepest := detail
	for _, leaf := range leaves(detail, nil) {
		if len(leaf.InstanceLocation) > len(deepest.InstanceLocation) {
			deepest = leaf
		}
	}
	return &ConfigError{
		Key:     k.of(deepest.InstanceLocation),
		Problem: "is no JSON Schema: " + deepest.ErrorKind.LocalizedString(printer),
		Allowed: "JSON Schema 2020-12",
	}
}

// compileProblem is a compiler's error without the name that the schema has only in here.
func compileProblem(err error) string {
	var pattern *jsonschema.InvalidRegexError
	if errors.As(err, &pattern) {
		return fmt.Sprintf("%q is no regular expression: %v", pattern.Regex, pattern.Err)
	}
	var load *jsonschema.LoadURLError
	if errors.As(err, &load) {
		return fmt.Sprintf("%s cannot be loaded: a schema may not refer to other documents", load.URL)
	}
	return schemaName.ReplaceAllString(err.Error(), "")
}

var schemaName = regexp.MustCompile(`file://[^#"]*`)

// inputKey tells where in "input" a place of the whole schema is: input is the schema, or only its properties.
type inputKey struct{ whole bool }

func (k inputKey) of(location []string) string {
	if !k.whole && len(location) > 0 && location[0] == "properties" {
		location = location[1:]
	}
	var b strings.Builder
	b.WriteString("input")
	for _, part := range location {
		if _, err := strconv.Atoi(part); err == nil {
			b.WriteString("[" + part + "]")
		} else {
			b.WriteString("." + part)
		}
	}
	return b.String()
}

// checkDefault refuses a default that a call could not give.
func (k inputKey) checkDefault(compiled *jsonschema.Schema, property string, value json.RawMessage) error {
	if value == nil || string(value) == "null" { // null: no value
		return nil
	}
	call, err := json.Marshal(map[string]json.RawMessage{property: value})
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(call))
	if err != nil {
		return err
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(compiled.Validate(v), &invalid) {
		return nil
	}
	for _, leaf := range leaves(invalid, nil) {
		if len(leaf.InstanceLocation) > 0 && leaf.InstanceLocation[0] == property {
			key := k.of(append([]string{"properties", property, "default"}, leaf.InstanceLocation[1:]...))
			return &ConfigError{Key: key, Problem: "does not fit its own schema: " + leaf.ErrorKind.LocalizedString(printer)}
		}
	}
	return nil // what else is wrong is that other arguments are missing
}
