package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"runnel/rpc/rawjson"
	"runnel/tools/config"
)

// inputs is what a command's configuration says about its arguments.
type inputs struct {
	schema   json.RawMessage            // the JSON Schema that tools/list shows
	whole    bool                       // "input" is that schema, and not only its properties
	names    []string                   // the declared properties, in the order they were written
	defaults map[string]json.RawMessage // by property
	arrays   map[string]bool            // the properties that are of type array
	used     []string                   // the properties that a template has
}

// parseInputs reads "input" and "required" of a tool. input is a whole JSON Schema if its "type" is
// a string (a property named type would have a schema there); else it is the schema's properties,
// and then nothing but them may be given: a misspelt argument gets an error instead of silence.
func parseInputs(input config.Object, required []string) (*inputs, error) {
	in := &inputs{defaults: map[string]json.RawMessage{}, arrays: map[string]bool{}}
	if len(input) == 0 || bytes.Equal(input, []byte("null")) {
		input = config.Object("{}")
	}
	if input[0] != '{' || !json.Valid(input) {
		return nil, &config.Error{Key: "input", Problem: "is no mapping", Allowed: "properties, or a JSON Schema of type object"}
	}

	if !utf8.Valid(input) { // from a caller in Go: a file that is not UTF-8 is refused before
		return nil, &config.Error{Key: "input", Problem: "is not UTF-8"}
	}

	top := objectMembers(json.RawMessage(input))
	properties := json.RawMessage(input)
	var kind string
	in.whole = json.Unmarshal(top["type"], &kind) == nil && kind != ""
	if in.whole {
		if kind != "object" {
			return nil, &config.Error{Key: "input.type", Problem: fmt.Sprintf("a schema of type %s cannot be a tool's input", kind), Allowed: "object"}
		}
		if len(required) > 0 {
			return nil, &config.Error{Key: "required", Problem: "stands beside a whole schema", Allowed: "required inside of input"}
		}
		in.schema = json.RawMessage(input)
		if properties = top["properties"]; len(properties) == 0 {
			properties = json.RawMessage("{}")
		}
	}
	if err := in.readProperties(properties); err != nil {
		return nil, err
	}
	for _, name := range required {
		if !slices.Contains(in.names, name) {
			return nil, &config.Error{Key: "required", Problem: fmt.Sprintf("%q names no input", name), Allowed: in.allowed()}
		}
	}
	if !in.whole {
		in.schema = in.build(properties, required)
	}
	return in, nil
}

func (in *inputs) readProperties(properties json.RawMessage) error {
	if properties[0] != '{' && properties[0] != 'n' {
		return &config.Error{Key: "input.properties", Problem: "is no mapping", Allowed: "names of arguments, each with its JSON Schema"}
	}
	in.names = objectKeys(properties)
	for name, schema := range objectMembers(properties) {
		if schema[0] == 't' || schema[0] == 'f' { // true and false are schemas
			continue
		}
		if schema[0] != '{' {
			return &config.Error{Key: "input." + name, Problem: "is no JSON Schema", Allowed: "a mapping such as {type: string, description: ...}"}
		}
		keywords := objectMembers(schema)
		if value := keywords["default"]; value != nil {
			in.defaults[name] = value
		}
		in.arrays[name] = string(keywords["type"]) == `"array"`
	}
	return nil
}

func (in *inputs) build(properties json.RawMessage, required []string) json.RawMessage {
	var b bytes.Buffer
	b.WriteString(`{"type":"object","properties":`)
	b.Write(properties)
	if len(required) > 0 {
		names, _ := json.Marshal(required)
		b.WriteString(`,"required":`)
		b.Write(names)
	}
	b.WriteString(`,"additionalProperties":false}`)
	return b.Bytes()
}

func (in *inputs) allowed() string {
	if len(in.names) == 0 {
		return "none, because the tool declares no input"
	}
	return strings.Join(in.names, ", ")
}

// objectMembers returns the members of a valid JSON object; null has none. json.Unmarshal would take three times as long, and with
// 50 tools that is seen in a start.
func objectMembers(object json.RawMessage) map[string]json.RawMessage {
	members := map[string]json.RawMessage{}
	if object[0] == '{' {
		rawjson.EachMember(object, func(name, value []byte) bool {
			members[string(name)] = slices.Clip(value)
			return true
		})
	}
	return members
}

// objectKeys returns the keys of a valid JSON object in their order, each once; null has none.
func objectKeys(object json.RawMessage) (keys []string) {
	if object[0] != '{' {
		return nil
	}
	rawjson.EachMember(object, func(name, _ []byte) bool {
		if key := string(name); !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
		return true
	})
	return keys
}

func (in *inputs) use(name string) {
	if !slices.Contains(in.used, name) {
		in.used = append(in.used, name)
	}
}
