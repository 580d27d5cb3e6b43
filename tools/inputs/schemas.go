package inputs

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"runnel/tools/config"
	"runnel/tools/schema"
)

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
