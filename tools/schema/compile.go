package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Compiled is a schema that a library validates with, beside what the library keeps to itself or does not tell:
// where its parts are, what they apply, and where a value is wrong.
type Compiled struct {
	root     *schemaPart
	source   *jsonschema.Schema
	resolved *jsonschema.Resolved
	parts    map[string]*schemaPart // by their JSON pointers

	// The sums over all patterns.
	patternBytes, instructions int
	resources                  map[string]*schemaResource
}

// schemaPart is a schema or one within it, with those that it applies to a value.
type schemaPart struct {
	*jsonschema.Schema
	place    []string
	pointer  string
	resource *schemaResource

	here, either []*schemaPart          // to the value itself; either: of anyOf
	members      map[string]*schemaPart // to its members of these names
	patterns     []patternPart          // to those whose names match
	additional   *schemaPart            // to the others
	unevaluated  *schemaPart            // to those that nothing else is applied to
	names        *schemaPart            // to the names
	pattern      patternSize
	steps        int           // of applying it, but for its parts and its patterns
	first        []*schemaPart // to its first items
	items        []*schemaPart // to the others, or to all
}

type patternPart struct {
	*regexp.Regexp
	size patternSize
	part *schemaPart
}

// schemaResource is a part of a schema with an identifier of its own (core, 4.3.5), or all of it.
type schemaResource struct {
	uri     *url.URL
	pointer string
	anchors map[string]*schemaPart
}

// Error is something that is wrong with a schema, or with a value.
type Error struct {
	Place   []string // the names and indexes that lead to it; empty: the whole
	Problem string
}

func (e *Error) Error() string {
	if len(e.Place) == 0 {
		return e.Problem
	}
	return strings.Join(e.Place, "/") + ": " + e.Problem
}

const (
	draft2020 = "https://json-schema.org/draft/2020-12/schema"
	draft07   = "http://json-schema.org/draft-07/schema#"
)

var baseURI = &url.URL{Scheme: "file", Path: "/input.json"} // which nothing reads; an $id may be relative

// Compile compiles a schema of draft 2020-12, or of draft-07 if its $schema says so. The error is a *Error with a
// place in the schema. It loads nothing: a reference to another document is an error.
func Compile(source []byte) (*Compiled, error) {
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
	c := &Compiled{source: s, parts: map[string]*schemaPart{}, resources: map[string]*schemaResource{}}
	whole := &schemaResource{uri: baseURI, anchors: map[string]*schemaPart{}}
	c.resources[baseURI.String()] = whole
	var err error
	if c.root, err = c.add(s, nil, whole); err != nil {
		return nil, err
	}
	for _, pointer := range slices.Sorted(maps.Keys(c.parts)) {
		if err := c.link(c.parts[pointer]); err != nil {
			return nil, err
		}
	}
	if err := c.checkCost(); err != nil {
		return nil, err
	}
	if c.resolved, err = s.Resolve(&jsonschema.ResolveOptions{BaseURI: baseURI.String()}); err != nil {
		return nil, &Error{nil, strings.TrimPrefix(err.Error(), "jsonschema: ")}
	}
	return c, nil
}

// misread says where in a schema it is that the library cannot read: each keyword is read alone.
func misread(source []byte, place []string, err error) error {
	readable := func(schema []byte) bool { return json.Unmarshal(schema, &jsonschema.Schema{}) == nil }
	var keywords map[string]json.RawMessage
	_ = json.Unmarshal(source, &keywords) // else the whole is wrong
	for _, keyword := range slices.Sorted(maps.Keys(keywords)) {
		value, there := keywords[keyword], at(place, keyword)
		alone, _ := json.Marshal(map[string]json.RawMessage{keyword: value})
		err := json.Unmarshal(alone, &jsonschema.Schema{})
		if err == nil {
			continue
		}
		var named map[string]json.RawMessage
		var list []json.RawMessage
		switch keyword {
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
			_ = json.Unmarshal(value, &named)
		default:
			if value[0] == '{' {
				return misread(value, there, err)
			}
			_ = json.Unmarshal(value, &list)
		}
		for _, name := range slices.Sorted(maps.Keys(named)) {
			if !readable(named[name]) {
				return misread(named[name], at(there, name), err)
			}
		}
		for i, part := range list {
			if part[0] == '{' && !readable(part) {
				return misread(part, at(there, strconv.Itoa(i)), err)
			}
		}
		return &Error{there, misreadProblem(err)}
	}
	return &Error{place, misreadProblem(err)}
}

func misreadProblem(err error) string {
	kind, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return err.Error()
	}
	want := map[reflect.Kind]string{reflect.String: "string", reflect.Bool: "boolean", reflect.Slice: "array", reflect.Map: "object",
		reflect.Float64: "number", reflect.Struct: "boolean or object"}[kind.Type.Kind()]
	got, _, _ := strings.Cut(kind.Value, " ")
	return fmt.Sprintf("got %s, want %s", got, want)
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

// add notes a schema that stands at a place, and those within. It looks for mistakes that the library lets pass, or tells without a place.
func (c *Compiled) add(s *jsonschema.Schema, place []string, in *schemaResource) (*schemaPart, error) {
	if s == nil {
		return nil, &Error{place, "got null, want boolean or object"}
	}
	old := c.source.Schema == draft07
	for _, name := range append(s.Types, s.Type) {
		if name != "" && !slices.Contains(typeNames, name) {
			return nil, &Error{at(place, "type"), "value must be one of " + strings.Join(typeNames, ", ")}
		}
	}
	if s.ItemsArray != nil && !old {
		return nil, &Error{at(place, "items"), "got array, want boolean or object; use prefixItems"}
	}
	_, pattern, err := c.addPattern(s.Pattern, at(place, "pattern"))
	if err != nil {
		return nil, err
	}
	p := &schemaPart{Schema: s, place: place, pointer: pointer(place), pattern: pattern, steps: ownSteps(s), members: map[string]*schemaPart{}}
	anchor := s.Anchor
	if s.ID != "" && (!old || s.Ref == "") { // "All other properties in a "$ref" object MUST be ignored." (draft-07 core, 8.3)
		uri, err := in.uri.Parse(s.ID)
		switch {
		case err != nil || uri.Fragment != "" && !old:
			return nil, &Error{at(place, "$id"), fmt.Sprintf("%q is no URI without a fragment", s.ID)}
		case uri.Fragment != "": // an anchor's older spelling
			anchor = uri.Fragment
		default:
			in = &schemaResource{uri: uri, pointer: p.pointer, anchors: map[string]*schemaPart{}}
			c.resources[uri.String()] = in
		}
	}
	p.resource = in
	for _, name := range []string{anchor, s.DynamicAnchor} {
		if name != "" {
			in.anchors[name] = p
		}
	}
	c.parts[p.pointer] = p
	return p, c.addParts(p)
}

// addParts adds the schemas within one.
func (c *Compiled) addParts(p *schemaPart) (err error) {
	add := func(s *jsonschema.Schema, where ...string) (part *schemaPart) {
		if err == nil {
			part, err = c.add(s, at(p.place, where...), p.resource)
		}
		return part
	}
	one := func(s *jsonschema.Schema, keyword string) *schemaPart {
		if s == nil {
			return nil
		}
		return add(s, keyword)
	}
	list := func(schemas []*jsonschema.Schema, keyword string) (parts []*schemaPart) {
		for i, s := range schemas {
			parts = append(parts, add(s, keyword, strconv.Itoa(i)))
		}
		return parts
	}
	named := func(schemas map[string]*jsonschema.Schema, keyword string) (parts []*schemaPart) {
		for _, name := range slices.Sorted(maps.Keys(schemas)) {
			parts = append(parts, add(schemas[name], keyword, name))
		}
		return parts
	}
	there := func(parts ...*schemaPart) []*schemaPart {
		return slices.DeleteFunc(parts, func(part *schemaPart) bool { return part == nil })
	}
	named(p.Defs, "$defs")
	named(p.Definitions, "definitions")
	one(p.ContentSchema, "contentSchema")
	p.either = list(p.AnyOf, "anyOf")
	p.here = slices.Concat(list(p.AllOf, "allOf"), list(p.OneOf, "oneOf"), named(p.DependentSchemas, "dependentSchemas"), named(p.DependencySchemas, "dependencies"),
		there(one(p.Not, "not"), one(p.If, "if"), one(p.Then, "then"), one(p.Else, "else")))
	for _, part := range named(p.Properties, "properties") {
		if part != nil {
			p.members[part.place[len(part.place)-1]] = part
		}
	}
	for _, pattern := range slices.Sorted(maps.Keys(p.PatternProperties)) {
		matches, size, wrong := c.addPattern(pattern, at(p.place, "patternProperties", pattern))
		if wrong != nil {
			return wrong
		}
		p.patterns = append(p.patterns, patternPart{matches, size, add(p.PatternProperties[pattern], "patternProperties", pattern)})
	}
	p.additional = one(p.AdditionalProperties, "additionalProperties")
	p.unevaluated = one(p.UnevaluatedProperties, "unevaluatedProperties")
	p.names = one(p.PropertyNames, "propertyNames")
	p.first = slices.Concat(list(p.PrefixItems, "prefixItems"), list(p.ItemsArray, "items"))
	p.items = there(one(p.Items, "items"), one(p.AdditionalItems, "additionalItems"), one(p.Contains, "contains"), one(p.UnevaluatedItems, "unevaluatedItems"))
	return err
}

// link adds what the references of a part refer to.
func (c *Compiled) link(p *schemaPart) error {
	for keyword, ref := range map[string]string{"$ref": p.Ref, "$dynamicRef": p.DynamicRef} {
		if ref == "" {
			continue
		}
		to, err := c.resolve(p.resource, ref)
		if err != nil {
			return &Error{at(p.place, keyword), err.Error()}
		}
		p.here = append(p.here, to)
		_, name, _ := strings.Cut(ref, "#")
		for _, r := range c.resources { // "the outermost schema resource in the dynamic scope" (core, 8.2.3.2): any of them
			if dynamic := r.anchors[name]; keyword == "$dynamicRef" && dynamic != nil && dynamic != to {
				p.here = append(p.here, dynamic)
			}
		}
	}
	return nil
}

// resolve finds what a reference in a resource refers to.
func (c *Compiled) resolve(from *schemaResource, ref string) (*schemaPart, error) {
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
	part := in.anchors[fragment]
	if fragment == "" || fragment[0] == '/' {
		part = c.parts[in.pointer+fragment]
	}
	if part == nil {
		return nil, fmt.Errorf("%q refers to nothing", ref)
	}
	return part, nil
}

// alone is one part of the schema, to validate with.
func (c *Compiled) alone(p *schemaPart) (*jsonschema.Resolved, error) {
	ref := *baseURI
	ref.Fragment = p.pointer
	s := &jsonschema.Schema{Schema: c.source.Schema, Ref: ref.String()}
	return s.Resolve(&jsonschema.ResolveOptions{Loader: func(*url.URL) (*jsonschema.Schema, error) { return c.source, nil }})
}
