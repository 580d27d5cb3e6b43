package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"runnel/rpc/rawjson"
	"runnel/tools/config"
	"runnel/tools/schema"
)

// newChecked is New with errors about the input that name the place within it.
func newChecked(name string, conf config.Command, env config.Environment) (*Command, error) {
	in, err := parseInputs(conf.Input, conf.Required)
	if err != nil {
		return nil, err
	}
	key := inputKey{whole: bytes.Equal(in.schema, conf.Input)}
	if certainInput(in) {
		return newUsingAll(name, conf, in, env, key)
	}
	compiled, err := schema.Compile(in.schema)
	if err != nil {
		return nil, key.schemaError(err)
	}
	for _, property := range in.names {
		if err := key.checkDefault(compiled, property, in.defaults[property]); err != nil {
			return nil, err
		}
	}
	return newUsingAll(name, conf, in, env, key)
}

// newUsingAll is newCommand, but it refuses an input that no placeholder has: a call would give it for nothing. In a script each is
// a variable, which the programs that the script starts may read.
func newUsingAll(name string, conf config.Command, in *inputs, env config.Environment, key inputKey) (*Command, error) {
	c, err := newCommand(name, conf, in, env)
	if err != nil || conf.Shell != "" {
		return c, err
	}
	for _, input := range in.names {
		if !slices.Contains(in.used, input) {
			return nil, &config.Error{Key: key.of([]string{"properties", input}), Problem: "the command does not use it", Allowed: "{{" + input + "}} in command or stdin"}
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
	wrong, ok := errors.AsType[*schema.Error](err)
	if !ok {
		wrong = &schema.Error{Problem: err.Error()}
	}
	return &config.Error{Key: keyOf(wrong.Place), Problem: "is no JSON Schema: " + wrong.Problem, Allowed: "JSON Schema 2020-12"}
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
func (k inputKey) checkDefault(compiled *schema.Compiled, property string, source json.RawMessage) error {
	if source == nil || string(source) == "null" { // null: no value
		return nil
	}
	place := []string{"properties", property, "default"}
	err := compiled.CheckMember(property, source)
	if wrong, ok := errors.AsType[*schema.Error](err); ok {
		return &config.Error{Key: k.of(append(place, wrong.Place...)), Problem: "does not fit its own schema: " + wrong.Problem}
	}
	if err != nil {
		return &config.Error{Key: k.of(place), Problem: err.Error()}
	}
	return nil
}

// certainInput reports whether a tool's input schema is certainly right, and its defaults with it: then it is not compiled before
// a call that may be wrong. Compiling was half of the time that a config of 50 tools took from spawn to the first answer. This
// knows what most tools say; all else, and every message, is the compiler's. FuzzCertainInput holds what it accepts to what that accepts.
func certainInput(in *inputs) bool {
	const most = 64 << 10 // bytes: fewer parts than checkCost refuses
	if len(in.schema) > most || !schema.Certain(in.schema) {
		return false
	}
	certain := true
	rawjson.EachMember(in.schema, func(keyword, properties []byte) bool {
		if string(keyword) == "properties" {
			rawjson.EachMember(properties, func(name, property []byte) bool {
				value, given := in.defaults[string(name)]
				certain = certain && (!given || value[0] == 'n' || schema.CertainlyFits(value, property))
				return certain
			})
		}
		return certain
	})
	return certain
}
