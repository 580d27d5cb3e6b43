package inputs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"runnel/rpc/rawjson"
	"runnel/tools"
	"runnel/tools/config"
	"runnel/tools/schema"
)

// Inputs describes the arguments of a tool.
type Inputs struct {
	Schema   json.RawMessage            // the JSON Schema that tools/list shows
	Names    []string                   // of the properties, in the order of the config
	Defaults map[string]json.RawMessage // by property
	Options  map[string]bool            // the properties whose values may begin with "-", as an option does
	Used     map[string]bool            // the properties that a template uses

	whole  bool            // the config has the whole schema, not only its properties
	arrays map[string]bool // the properties of type array
}

// Parse reads "input" and "required" of a tool. input is a whole JSON Schema if its "type" is a string
// (the value of a property named type would be a schema). Otherwise it holds the properties, and no others
// are allowed: a misspelt argument is an error.
func Parse(input config.Object, required []string) (*Inputs, error) {
	in := &Inputs{Defaults: map[string]json.RawMessage{}, arrays: map[string]bool{},
		Options: map[string]bool{}, Used: map[string]bool{}}
	if len(input) == 0 {
		input = config.Object("{}")
	}
	properties := input
	kind := rawjson.StringMember(input, "type")
	if in.whole = kind != ""; in.whole {
		if kind != "object" {
			return nil, &config.Error{Key: "input.type",
				Problem: fmt.Sprintf("a schema of type %s cannot be a tool's input", kind), Allowed: "object"}
		}
		if len(required) > 0 {
			return nil, &config.Error{Key: "required", Problem: "cannot be combined with a whole schema",
				Allowed: "required inside input"}
		}
		in.Schema = input
		if properties = rawjson.Member(input, "properties"); properties == nil {
			properties = json.RawMessage("{}")
		}
	}
	if err := in.readProperties(properties); err != nil {
		return nil, err
	}
	for _, name := range required {
		if !slices.Contains(in.Names, name) {
			return nil, &config.Error{Key: "required", Problem: fmt.Sprintf("%q names no input", name),
				Allowed: in.Allowed()}
		}
	}
	if !in.whole {
		inner := func(list json.RawMessage) string { list = bytes.TrimSpace(list); return string(list[1 : len(list)-1]) }
		in.Schema = tools.ObjectSchema(inner(properties),
			inner(rawjson.Encode(append([]string{}, required...))))
	}
	return in, nil
}

func (in *Inputs) readProperties(properties json.RawMessage) error {
	if properties[0] != '{' && properties[0] != 'n' {
		return &config.Error{Key: "input.properties", Problem: "is not a mapping",
			Allowed: "names of arguments, each with its JSON Schema"}
	}
	if properties[0] != '{' {
		return nil
	}
	members := rawjson.Over(properties)
	for members.Next() {
		name, schema := string(members.Name), members.Value
		if !slices.Contains(in.Names, name) {
			in.Names = append(in.Names, name)
		}
		switch schema[0] {
		case 't', 'f': // true and false are schemas
		case '{':
			if value := rawjson.Member(schema, "default"); value != nil {
				in.Defaults[name] = value
			}
			if in.arrays[name] = rawjson.StringMember(schema, "type") == "array"; in.arrays[name] {
				if schema = rawjson.Member(schema, "items"); len(schema) == 0 || schema[0] != '{' {
					continue
				}
			}
			kind := rawjson.StringMember(schema, "type")
			// One that the config lists.
			in.Options[name] = kind == "integer" || kind == "number" || rawjson.Member(schema, "enum") != nil
		default:
			return &config.Error{Key: "input." + name, Problem: "is not a JSON Schema",
				Allowed: "a mapping such as {type: string, description: ...}"}
		}
	}
	return nil
}

// Allowed lists the inputs, for an error.
func (in *Inputs) Allowed() string {
	if len(in.Names) == 0 {
		return "none, because the tool declares no input"
	}
	return strings.Join(in.Names, ", ")
}

// CheckSchemas returns a mistake in the JSON Schemas of a tool: that of its input, its defaults, that of its
// output (nil = it has none). A server does not call it: compiling the schemas of 50 tools takes longer than
// the rest of its start, so each is compiled at the tool's first call.
func (in *Inputs) CheckSchemas(output *schema.Checker) error {
	input := schema.New(in.Schema, "")
	if wrong, ok := errors.AsType[*schema.Error](input.Compile()); ok {
		return badSchema(in.Key(wrong.Place), wrong)
	}
	for _, property := range in.Names {
		if err := in.checkDefault(input, property); err != nil {
			return err
		}
	}
	if output != nil {
		if wrong, ok := errors.AsType[*schema.Error](output.Compile()); ok {
			return badSchema(keyOf("outputSchema", wrong.Place), wrong)
		}
	}
	return nil
}

func badSchema(key string, wrong *schema.Error) error {
	return &config.Error{Key: key, Problem: "is not a JSON Schema: " + wrong.Problem,
		Allowed: "JSON Schema 2020-12"}
}

// keyOf returns the config key of a place in the schema under key.
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

// Key returns the config key of a place in the input schema.
func (in *Inputs) Key(location []string) string {
	if !in.whole && len(location) > 0 && location[0] == "properties" {
		location = location[1:]
	}
	return keyOf("input", location)
}

// checkDefault refuses a default that would be invalid as an argument.
func (in *Inputs) checkDefault(input *schema.Checker, property string) error {
	source := in.Defaults[property]
	if source == nil || string(source) == "null" { // null: no value
		return nil
	}
	wrong, ok := errors.AsType[*schema.Error](input.CheckProperty(property, source))
	if !ok {
		return nil
	}
	if i := slices.Index(wrong.Place, "*"); i >= 0 { // an item; its index is unknown
		wrong.Place = wrong.Place[:i]
	}
	place := append([]string{"properties", property, "default"}, wrong.Place...)
	return &config.Error{Key: in.Key(place), Problem: "does not fit its own schema: " + wrong.Problem}
}
