package command

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"runnel/tools/config"
	"runnel/tools/schema"
)

// CheckSchemas returns the mistakes in the JSON Schemas of commands, each with its place in the config. A
// server does not call it: compiling the schemas of 50 tools takes longer than the rest of its start, so each
// is compiled at the tool's first call.
func CheckSchemas(c *config.Config, commands []*Command) error {
	var errs []error
	for _, command := range commands {
		if err := command.checkSchemas(); err != nil {
			errs = append(errs, c.Locate(config.Join("tools", command.name), err))
		}
	}
	return config.JoinErrors(errs)
}

func (c *Command) checkSchemas() error {
	input := schema.New(c.in.schema, "")
	if wrong, ok := errors.AsType[*schema.Error](input.Compile()); ok {
		return badSchema(c.in.key(wrong.Place), wrong)
	}
	for _, property := range c.in.names {
		if err := c.in.checkDefault(input, property); err != nil {
			return err
		}
	}
	if c.outputs != nil {
		if wrong, ok := errors.AsType[*schema.Error](c.outputs.Compile()); ok {
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

// key returns the config key of a place in the input schema.
func (in *inputs) key(location []string) string {
	if !in.whole && len(location) > 0 && location[0] == "properties" {
		location = location[1:]
	}
	return keyOf("input", location)
}

// checkDefault refuses a default that would be invalid as an argument.
func (in *inputs) checkDefault(input *schema.Checker, property string) error {
	source := in.defaults[property]
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
	return &config.Error{Key: in.key(place), Problem: "does not fit its own schema: " + wrong.Problem}
}
