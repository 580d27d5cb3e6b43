package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// compiled is a schema that the library validates with, and its parts, by which is counted what that costs.
type compiled struct {
	source   *jsonschema.Schema
	resolved *jsonschema.Resolved

	parts     []*part // source first
	of        map[*jsonschema.Schema]*part
	pointers  map[string]*part // by their JSON pointers
	resources map[string]*resource
	patterns  map[string]pattern

	// The sums over all patterns.
	patternBytes, instructions int
}

// part is a schema within a schema.
type part struct {
	*jsonschema.Schema
	place   []string
	pointer string
	in      *resource
	inner   []*part // that stand in it
	refs    []*part // that it refers to
	here    []*part // that it applies to the value itself, but for those of anyOf
	steps   int     // of applying it, but for its parts and its patterns
}

// resource is a part of a schema with an identifier of its own (core, 4.3.5), or all of it.
type resource struct {
	uri     *url.URL
	pointer string
	anchors map[string]*part
}

const (
	draft2020 = "https://json-schema.org/draft/2020-12/schema"
	draft07   = "http://json-schema.org/draft-07/schema#"
)

var baseURI = &url.URL{Scheme: "file", Path: "/input.json"} // which nothing reads; an $id may be relative

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
	c := &compiled{source: s, of: map[*jsonschema.Schema]*part{}, pointers: map[string]*part{}, resources: map[string]*resource{}, patterns: map[string]pattern{}}
	if err := c.add(s, nil, c.newResource(baseURI, "")); err != nil {
		return nil, err
	}
	for _, p := range c.parts {
		if err := c.link(p); err != nil {
			return nil, err
		}
	}
	if err := c.checkCost(); err != nil {
		return nil, err
	}
	var err error
	if c.resolved, err = s.Resolve(&jsonschema.ResolveOptions{BaseURI: baseURI.String()}); err != nil {
		return nil, &Error{nil, strings.TrimPrefix(err.Error(), "jsonschema: ")}
	}
	return c, nil
}

// alone is one part of the schema, to validate with.
func (c *compiled) alone(p *part) (*jsonschema.Resolved, error) {
	ref := *baseURI
	ref.Fragment = p.pointer
	s := &jsonschema.Schema{Schema: c.source.Schema, Ref: ref.String()}
	return s.Resolve(&jsonschema.ResolveOptions{Loader: func(*url.URL) (*jsonschema.Schema, error) { return c.source, nil }})
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

func at(place []string, name ...string) []string { return append(slices.Clip(place), name...) }

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// pointer writes a place as a JSON pointer (RFC 6901).
func pointer(place []string) string {
	var b strings.Builder
	for _, name := range place {
		b.WriteString("/" + pointerEscaper.Replace(name))
	}
	return b.String()
}

var typeNames = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

func (c *compiled) newResource(uri *url.URL, pointer string) *resource {
	r := &resource{uri: uri, pointer: pointer, anchors: map[string]*part{}}
	c.resources[uri.String()] = r
	return r
}

// add notes a schema that stands at a place, and those within. It looks for mistakes that the library lets pass, or tells without a place.
func (c *compiled) add(s *jsonschema.Schema, place []string, in *resource) error {
	if s == nil {
		return &Error{place, "null is neither a boolean nor an object"}
	}
	for _, name := range append(s.Types, s.Type) {
		if name != "" && !slices.Contains(typeNames, name) {
			return &Error{at(place, "type"), "value must be one of " + strings.Join(typeNames, ", ")}
		}
	}
	if s.ItemsArray != nil && c.source.Schema != draft07 {
		return &Error{at(place, "items"), "a list of schemas is called prefixItems in this draft"}
	}
	if s.Pattern != "" {
		if err := c.addPattern(s.Pattern, at(place, "pattern")); err != nil {
			return err
		}
	}
	for _, pattern := range slices.Sorted(maps.Keys(s.PatternProperties)) {
		if err := c.addPattern(pattern, at(place, "patternProperties", pattern)); err != nil {
			return err
		}
	}
	p := &part{Schema: s, place: place, pointer: pointer(place), steps: ownSteps(s)}
	anchor := s.Anchor
	if old := c.source.Schema == draft07; s.ID != "" && (!old || s.Ref == "") { // "All other properties in a "$ref" object MUST be ignored." (draft-07 core, 8.3)
		uri, err := in.uri.Parse(s.ID)
		switch {
		case err != nil || uri.Fragment != "" && !old:
			return &Error{at(place, "$id"), fmt.Sprintf("%q is no URI without a fragment", s.ID)}
		case uri.Fragment != "": // an anchor's older spelling
			anchor = uri.Fragment
		default:
			in = c.newResource(uri, p.pointer)
		}
	}
	p.in = in
	for _, name := range []string{anchor, s.DynamicAnchor} {
		if name != "" {
			in.anchors[name] = p
		}
	}
	c.parts, c.of[s], c.pointers[p.pointer] = append(c.parts, p), p, p
	for _, inner := range inside(s) {
		if err := c.add(inner.schema, at(place, inner.place...), in); err != nil {
			return err
		}
		p.inner = append(p.inner, c.of[inner.schema])
	}
	return nil
}

type insideOf struct {
	place  []string
	schema *jsonschema.Schema
}

// inside are the schemas that stand directly in one, in the order of their keywords in the library.
func inside(s *jsonschema.Schema) (list []insideOf) {
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		keyword, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		switch v.Type().Field(i).Name {
		case "Items", "ItemsArray":
			keyword = "items"
		case "DependencySchemas":
			keyword = "dependencies"
		}
		switch inner := v.Field(i).Interface().(type) {
		case *jsonschema.Schema:
			if inner != nil {
				list = append(list, insideOf{[]string{keyword}, inner})
			}
		case []*jsonschema.Schema:
			for i, s := range inner {
				list = append(list, insideOf{[]string{keyword, strconv.Itoa(i)}, s})
			}
		case map[string]*jsonschema.Schema:
			for _, name := range slices.Sorted(maps.Keys(inner)) {
				list = append(list, insideOf{[]string{keyword, name}, inner[name]})
			}
		}
	}
	return list
}

// link finds what the references of a part refer to.
func (c *compiled) link(p *part) error {
	for keyword, ref := range map[string]string{"$ref": p.Ref, "$dynamicRef": p.DynamicRef} {
		if ref == "" {
			continue
		}
		to, err := c.resolve(p.in, ref)
		if err != nil {
			return &Error{at(p.place, keyword), err.Error()}
		}
		p.refs = append(p.refs, to)
		_, name, _ := strings.Cut(ref, "#")
		for _, r := range c.resources { // "the outermost schema resource in the dynamic scope" (core, 8.2.3.2): any of them
			if dynamic := r.anchors[name]; keyword == "$dynamicRef" && dynamic != nil && dynamic != to {
				p.refs = append(p.refs, dynamic)
			}
		}
	}
	p.here = c.applied(p)
	return nil
}

// resolve finds what a reference in a resource refers to.
func (c *compiled) resolve(from *resource, ref string) (*part, error) {
	uri, err := from.uri.Parse(ref)
	if err != nil {
		return nil, fmt.Errorf("%q is no reference", ref)
	}
	fragment := uri.Fragment
	uri.Fragment, uri.RawFragment = "", ""
	in, ok := c.resources[uri.String()]
	if !ok {
		return nil, fmt.Errorf("%s cannot be loaded: a schema may not refer to other documents", ref)
	}
	to := in.anchors[fragment]
	if fragment == "" || fragment[0] == '/' {
		to = c.pointers[in.pointer+fragment]
	}
	if to == nil {
		return nil, fmt.Errorf("%q refers to nothing", ref)
	}
	return to, nil
}
