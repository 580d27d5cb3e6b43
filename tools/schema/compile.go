package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// compiled is a schema that the library validates with, and its tree, by which is counted what that costs.
type compiled struct {
	*tree
	resolved *jsonschema.Resolved
}

// compile compiles a schema of draft 2020-12, or of draft-07 if its $schema says so. The error is an [*Error] with a
// place in the schema. It loads nothing: a reference to another document is an error.
func compile(source []byte) (*compiled, error) {
	s := &jsonschema.Schema{}
	if err := json.Unmarshal(source, s); err != nil {
		return nil, misread(source, nil, err)
	}
	switch strings.TrimPrefix(strings.TrimPrefix(strings.TrimSuffix(s.Schema, "#"), "http://"), "https://") {
	case "", "json-schema.org/draft/2020-12/schema", "json-schema.org/schema":
		s.Schema = draft2020
	case "json-schema.org/draft-07/schema":
		s.Schema = draft07
	default:
		return nil, &Error{[]string{"$schema"}, fmt.Sprintf("%q is not known here; use %s or %s", s.Schema, draft2020, draft07)}
	}
	t, err := newTree(s)
	if err == nil {
		err = t.checkCost()
	}
	if err != nil {
		return nil, err
	}
	resolved, err := s.Resolve(&jsonschema.ResolveOptions{BaseURI: baseURI.String()})
	if err != nil {
		return nil, &Error{nil, strings.TrimPrefix(err.Error(), "jsonschema: ")}
	}
	return &compiled{t, resolved}, nil
}

// misread says where in a schema it is that the library cannot read: each keyword is read alone.
func misread(source []byte, place []string, err error) error {
	readable := func(schema []byte) bool { return json.Unmarshal(schema, &jsonschema.Schema{}) == nil }
	for keyword, value := range members(source) {
		alone, _ := json.Marshal(map[string]json.RawMessage{keyword: value})
		err := json.Unmarshal(alone, &jsonschema.Schema{})
		if err == nil {
			continue
		}
		there, inner := at(place, keyword), members(value)
		switch keyword {
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
		default:
			if value[0] == '{' {
				return misread(value, there, err)
			}
		}
		for name, schema := range inner {
			if !readable(schema) && (value[0] == '{' || schema[0] == '{') {
				return misread(schema, at(there, name), err)
			}
		}
		return &Error{there, misreadProblem(err)}
	}
	return &Error{place, misreadProblem(err)}
}

func misreadProblem(err error) string {
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		got, _, _ := strings.Cut(kind.Value, " ")
		return "cannot be of type " + got
	}
	return err.Error()
}

// members are the members of an object or the items of a list, in order.
func members(source []byte) iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) {
		var named map[string]json.RawMessage
		var list []json.RawMessage
		_ = json.Unmarshal(source, &named)
		_ = json.Unmarshal(source, &list)
		for _, name := range slices.Sorted(maps.Keys(named)) {
			if !yield(name, named[name]) {
				return
			}
		}
		for i, item := range list {
			if !yield(strconv.Itoa(i), item) {
				return
			}
		}
	}
}
