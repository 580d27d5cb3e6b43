package model

import (
	"bytes"
	"encoding/json"
	"slices"

	"runnel/rpc/rawjson"
)

// Providers hold an answer to a part of JSON Schema only, and refuse a request with more. What they do not
// check is checked when the answer has come.

// strictKeywords are those of a schema to which OpenAI holds an answer exactly
// (https://platform.openai.com/docs/guides/structured-outputs).
var strictKeywords = []string{"$schema", "$ref", "$defs", "definitions", "title", "description", "type", "enum",
	"const", "anyOf", "properties", "required", "additionalProperties", "items", "pattern", "format", "minimum",
	"maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems"}

// isStrict reports whether OpenAI can hold an answer to a schema exactly: each of its objects requires all of
// its properties and has no others, and its top level is not an anyOf.
func isStrict(schema []byte) bool {
	return rawjson.Member(schema, "anyOf") == nil && strictBelow(schema)
}

func strictBelow(schema []byte) bool {
	for it := rawjson.Over(schema); it.Next(); {
		if !slices.Contains(strictKeywords, string(it.Name)) {
			return false
		}
		for _, s := range subschemas(string(it.Name), it.Value) {
			if !strictBelow(s) {
				return false
			}
		}
	}
	if !isObject(schema) {
		return saysWhat(schema)
	}
	names := memberNames(rawjson.Member(schema, "properties"))
	required := requiredOf(schema)
	return len(names) > 0 && string(rawjson.Member(schema, "additionalProperties")) == "false" &&
		!slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(required, name) })
}

// Anthropic takes keptKeywords (https://docs.claude.com/en/docs/build-with-claude/structured-outputs).
// Without droppedKeywords a schema only allows more.
var (
	keptKeywords = []string{"$ref", "$defs", "definitions", "title", "description", "type", "enum", "const",
		"default", "anyOf", "allOf", "properties", "required", "items", "pattern"}
	droppedKeywords = []string{"$schema", "$id", "$comment", "examples", "deprecated", "readOnly", "writeOnly",
		"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
		"minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "format", "additionalProperties"}
)

// closed returns a schema as Anthropic takes it, whose objects have no other properties than those that it
// names. It is nil if there is none: for an object that may have any, or for keywords that Anthropic lacks.
func closed(schema []byte) json.RawMessage {
	if !isObject(schema) && !saysWhat(schema) {
		return nil
	}
	made := json.RawMessage("{}")
	for it := rawjson.Over(schema); it.Next(); {
		name := string(it.Name)
		if slices.Contains(droppedKeywords, name) {
			continue
		}
		value := closedBelow(name, it.Value)
		if value == nil || !slices.Contains(keptKeywords, name) {
			return nil
		}
		made = rawjson.WithMember(made, name, value)
	}
	if !isObject(schema) {
		return made
	}
	names := memberNames(rawjson.Member(schema, "properties"))
	more := rawjson.Member(schema, "additionalProperties")
	if len(names) == 0 || more != nil && string(more) != "false" ||
		slices.ContainsFunc(requiredOf(schema), func(name string) bool { return !slices.Contains(names, name) }) {
		return nil
	}
	return rawjson.WithMember(made, "additionalProperties", false)
}

// closedBelow returns the value of a keyword with its schemas closed, nil if one of them cannot be.
func closedBelow(keyword string, value []byte) json.RawMessage {
	list := subschemas(keyword, value)
	made := make([]json.RawMessage, len(list))
	for i, s := range list {
		if made[i] = closed(s); made[i] == nil {
			return nil
		}
	}
	switch {
	case list == nil:
		return value
	case keyword == "items":
		return made[0]
	case rawjson.IsArray(value):
		return rawjson.Encode(made)
	}
	all := json.RawMessage("{}")
	for i, name := range memberNames(value) {
		all = rawjson.WithMember(all, name, made[i])
	}
	return all
}

// subschemas returns the schemas in the value of a keyword, as far as providers take such keywords.
func subschemas(keyword string, value []byte) (list [][]byte) {
	switch keyword {
	case "items":
		return [][]byte{value}
	case "properties", "$defs", "definitions", "anyOf", "allOf":
		for it := rawjson.Over(value); it.Next(); {
			list = append(list, it.Value)
		}
	}
	return list
}

// isObject reports whether a schema describes objects.
func isObject(schema []byte) bool {
	return bytes.Contains(rawjson.Member(schema, "type"), []byte(`"object"`)) ||
		rawjson.Member(schema, "properties") != nil
}

// saysWhat reports whether a schema describes something, not anything.
func saysWhat(schema []byte) bool {
	return slices.ContainsFunc([]string{"type", "enum", "const", "anyOf", "allOf", "$ref"},
		func(keyword string) bool { return rawjson.Member(schema, keyword) != nil })
}

func requiredOf(schema []byte) (names []string) {
	_ = json.Unmarshal(rawjson.Member(schema, "required"), &names) // of none, none
	return names
}

func memberNames(object []byte) (names []string) {
	for it := rawjson.Over(object); it.Next(); {
		names = append(names, string(it.Name))
	}
	return names
}
