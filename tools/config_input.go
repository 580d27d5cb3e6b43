package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"runnel/tools/jsonschema"
)

// newCheckedCommand is NewCommand with errors about the input that name the place within it.
func newCheckedCommand(name string, config CommandConfig, env Environment) (*Command, error) {
	in, err := parseInputs(config.Input, config.Required)
	if err != nil {
		return nil, err
	}
	key := inputKey{whole: bytes.Equal(in.schema, config.Input)}
	compiled, err := jsonschema.Compile(in.schema)
	if err != nil {
		return nil, key.schemaError(err)
	}
	for _, property := range in.names {
		if err := key.checkDefault(compiled, property, in.defaults[property]); err != nil {
			return nil, err
		}
	}
	return newCommand(name, config, in, env)
}

// schemaError says where in "input" the schema is wrong.
func (k inputKey) schemaError(err error) error {
	var wrong *jsonschema.Error
	if !errors.As(err, &wrong) {
		wrong = &jsonschema.Error{Problem: err.Error()}
	}
	return &ConfigError{Key: k.of(wrong.Place), Problem: "is no JSON Schema: " + wrong.Problem, Allowed: "JSON Schema 2020-12"}
}

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
	wrong, err := compiled.Validate(call)
	if err != nil {
		return err
	}
	for _, w := range wrong {
		if len(w.Place) > 0 && w.Place[0] == property {
			key := k.of(append([]string{"properties", property, "default"}, w.Place[1:]...))
			return &ConfigError{Key: key, Problem: "does not fit its own schema: " + w.Problem}
		}
	}
	return nil // what else is wrong is that other arguments are missing
}
