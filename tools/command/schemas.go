package command

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"runnel/tools/config"
	"runnel/tools/schema"
)

// CheckSchemas reports what is wrong with the schemas of the commands of a config. To compile those of 50 tools takes longer than all
// else that a start does: a server that starts leaves it to the first call of each.
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
	return &config.Error{Key: key, Problem: "is not a JSON Schema: " + wrong.Problem, Allowed: "JSON Schema 2020-12"}
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

// key is the key of a place in the schema, under "input".
func (in *inputs) key(location []string) string {
	if !in.whole && len(location) > 0 && location[0] == "properties" {
		location = location[1:]
	}
	return keyOf("input", location)
}

// checkDefault refuses a default that a call could not give.
func (in *inputs) checkDefault(input *schema.Checker, property string) error {
	source := in.defaults[property]
	if source == nil || string(source) == "null" { // null: no value
		return nil
	}
	wrong, ok := errors.AsType[*schema.Error](input.CheckProperty(property, source))
	if !ok {
		return nil
	}
	if i := slices.Index(wrong.Place, "*"); i >= 0 { // an item whose index is not known
		wrong.Place = wrong.Place[:i]
	}
	place := append([]string{"properties", property, "default"}, wrong.Place...)
	return &config.Error{Key: in.key(place), Problem: "does not fit its own schema: " + wrong.Problem}
}
