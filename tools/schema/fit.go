package schema

import (
	"bytes"
	"encoding/json"
	"slices"

	"runnel/rpc/rawjson"
)

// Fit returns the arguments as a tool takes them, or an error as Check does. What is valid stays as it is.
// But models and clients also send null for an argument that they leave out, and "3", "true", "[1]" or "{}"
// for a number, a boolean, an array or an object. Where the schema leaves no doubt, such an argument is
// absent, or the value in the string.
func (s *Checker) Fit(arguments json.RawMessage) (json.RawMessage, error) {
	err := s.Check(arguments)
	if err == nil || s.err != nil || !json.Valid(arguments) {
		return arguments, err
	}
	f := fitting{s.compiled.tree, map[*part][]string{}}
	arguments = f.meant(s.compiled.parts[0], bytes.TrimSpace(arguments), maxFitted)
	return arguments, s.Check(arguments)
}

// maxFitted is how deep Fit looks into a value. Each level is scanned once more.
const maxFitted = 8

// fitting is one Fit.
type fitting struct {
	*tree
	known map[*part][]string // types of parts so far
}

// meant returns what is meant by v, a value that p describes. It never writes into v.
func (f *fitting) meant(p *part, v json.RawMessage, levels int) json.RawMessage {
	types := f.types(p)
	for p.Ref != "" && p.DynamicRef == "" && len(p.Properties) == 0 && p.Items == nil {
		p = p.refs[0]
	}
	if v[0] == '"' && len(types) > 0 && !slices.Contains(types, "string") {
		inside := bytes.TrimSpace([]byte(rawjson.Unquote(v)))
		if json.Valid(inside) && slices.ContainsFunc(types, func(name string) bool { return isOf(inside, name) }) && string(inside) != "null" {
			v = inside
		}
	}
	if levels == 0 || v[0] != '{' && v[0] != '[' {
		return v
	}
	var fitted []byte
	for it := rawjson.Over(v); it.Next(); {
		value := json.RawMessage(it.Value)
		of := f.of[p.Items]
		if v[0] == '{' {
			of = f.of[p.Properties[string(it.Name)]]
		}
		if of != nil {
			value = f.meant(of, value, levels-1)
			if types := f.types(of); v[0] == '{' && string(value) == "null" && len(types) > 0 && !slices.Contains(types, "null") && !slices.Contains(p.Required, string(it.Name)) {
				continue
			}
		}
		if len(fitted) > 0 {
			fitted = append(fitted, ',')
		}
		if v[0] == '{' {
			fitted = append(append(fitted, it.Quoted...), ':')
		}
		fitted = append(fitted, value...)
	}
	return slices.Concat([]byte{v[0]}, fitted, []byte{v[0] + 2}) // ] and } come two after [ and {
}

// types returns the types of the values that p allows, nil if it does not say.
func (f *fitting) types(p *part) (types []string) {
	if types, ok := f.known[p]; ok {
		return types
	}
	defer func() { f.known[p] = types }()
	switch choices := slices.Concat(p.AnyOf, p.OneOf); {
	case p.Type != "":
		return []string{p.Type}
	case len(p.Types) > 0:
		return p.Types
	case p.Ref != "" && p.DynamicRef == "":
		return f.types(p.refs[0])
	case len(choices) > 0:
		for _, choice := range choices {
			each := f.types(f.of[choice])
			if each == nil {
				return nil
			}
			types = append(types, each...)
		}
	}
	for _, value := range p.Enum {
		types = append(types, typeOf(rawjson.Encode(value)))
	}
	return types
}

// typeOf returns the type of a JSON value.
func typeOf(v []byte) string {
	switch v[0] {
	case '"':
		return "string"
	case '{':
		return "object"
	case '[':
		return "array"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}

// isOf reports whether a JSON value may be of a type: a number may be an integer.
func isOf(v []byte, name string) bool {
	return typeOf(v) == name || name == "integer" && typeOf(v) == "number"
}
