package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// newCheckedCommand is NewCommand with errors about the input that name the place within it.
func newCheckedCommand(name string, config CommandConfig, env Environment) (*Command, error) {
	in, err := parseInputs(config.Input, config.Required)
	if err != nil {
		return nil, err
	}
	key := inputKey{whole: bytes.Equal(in.schema, config.Input)}
	if certainInput(in) {
		return newUsingAll(name, config, in, env, key)
	}
	compiled, err := compileSchema(in.schema)
	if err != nil {
		return nil, key.schemaError(err)
	}
	for _, property := range in.names {
		if err := key.checkDefault(compiled, property, in.defaults[property]); err != nil {
			return nil, err
		}
	}
	return newUsingAll(name, config, in, env, key)
}

// newUsingAll is newCommand, but it refuses an input that no placeholder has: a call would give it for nothing. In a script each is
// a variable, which the programs that the script starts may read.
func newUsingAll(name string, config CommandConfig, in *inputs, env Environment, key inputKey) (*Command, error) {
	c, err := newCommand(name, config, in, env)
	if err != nil || config.Shell != "" {
		return c, err
	}
	for _, input := range in.names {
		if !slices.Contains(in.used, input) {
			return nil, &ConfigError{Key: key.of([]string{"properties", input}), Problem: "the command does not use it", Allowed: "{{" + input + "}} in command or stdin"}
		}
	}
	return c, nil
}

// schemaError says where in "input" the schema is wrong.
func (k inputKey) schemaError(err error) error {
	return badSchema(k.of, err)
}

// badSchema is an error of a schema, with the key of the place where it is wrong.
func badSchema(keyOf func(location []string) string, err error) error {
	wrong, ok := errors.AsType[*schemaError](err)
	if !ok {
		wrong = &schemaError{problem: err.Error()}
	}
	return &ConfigError{Key: keyOf(wrong.place), Problem: "is no JSON Schema: " + wrong.problem, Allowed: "JSON Schema 2020-12"}
}

// keyOf is the key of a place in a schema that stands under a key.
func keyOf(key string, location []string) string {
	var b strings.Builder
	b.WriteString(key)
	for _, part := range location {
		if _, err := strconv.Atoi(part); err == nil {
			b.WriteString("[" + part + "]")
		} else {
			b.WriteString("." + part)
		}
	}
	return b.String()
}

// inputKey tells where in "input" a place of the whole schema is: input is the schema, or only its properties.
type inputKey struct{ whole bool }

func (k inputKey) of(location []string) string {
	if !k.whole && len(location) > 0 && location[0] == "properties" {
		location = location[1:]
	}
	return keyOf("input", location)
}

// checkDefault refuses a default that a call could not give.
func (k inputKey) checkDefault(compiled *compiledSchema, property string, source json.RawMessage) error {
	if source == nil || string(source) == "null" { // null: no value
		return nil
	}
	value, err := readValue(source)
	if err != nil {
		return &ConfigError{Key: k.of([]string{"properties", property, "default"}), Problem: err.Error()}
	}
	if wrong := compiled.validateMember(property, value, len(source)); wrong != nil {
		key := k.of(append([]string{"properties", property, "default"}, wrong.place...))
		return &ConfigError{Key: key, Problem: "does not fit its own schema: " + wrong.problem}
	}
	return nil
}
