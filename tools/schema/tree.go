package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// tree is a schema with all schemas in it.
type tree struct {
	source *jsonschema.Schema

	parts []*part // source first
	of    map[*jsonschema.Schema]*part
	// names has the parts by their JSON pointers, and by the names that the library uses: their $id, "root".
	names     map[string]*part
	resources map[string]*resource
	patterns  patterns
}

// part is a schema within a schema.
type part struct {
	*jsonschema.Schema
	place   []string
	pointer string
	in      *resource
	inner   []*part // the parts in it
	refs    []*part // the parts that it refers to
	here    []*part // the parts that it applies to the value itself, except those of anyOf
	steps   int     // the cost of applying it, except its parts and patterns
}

// resource is a part of a schema with its own identifier (core, 4.3.5), or the whole schema.
type resource struct {
	uri     *url.URL
	pointer string
	anchors map[string]*part
}

const (
	draft2020 = "https://json-schema.org/draft/2020-12/schema"
	draft07   = "http://json-schema.org/draft-07/schema#"
)

var baseURI = &url.URL{Scheme: "file", Path: "/input.json"} // nothing reads it; a relative $id needs a base

// newTree reads the parts of a schema, whose $schema is known.
func newTree(s *jsonschema.Schema) (*tree, error) {
	t := &tree{source: s, of: map[*jsonschema.Schema]*part{}, names: map[string]*part{},
		resources: map[string]*resource{}, patterns: patterns{all: map[string]pattern{}}}
	if err := t.add(s, nil, t.newResource(baseURI, "")); err != nil {
		return nil, err
	}
	for _, p := range t.parts {
		if err := t.link(p); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func at(place []string, name ...string) []string { return append(slices.Clip(place), name...) }

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// pointer returns a place as a JSON pointer (RFC 6901).
func pointer(place []string) string {
	var b strings.Builder
	for _, name := range place {
		b.WriteString("/" + pointerEscaper.Replace(name))
	}
	return b.String()
}

var typeNames = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

func (t *tree) newResource(uri *url.URL, pointer string) *resource {
	r := &resource{uri: uri, pointer: pointer, anchors: map[string]*part{}}
	t.resources[uri.String()] = r
	return r
}

// add adds the schema at a place and those in it. It refuses mistakes that the library accepts, or reports
// without a place.
func (t *tree) add(s *jsonschema.Schema, place []string, in *resource) error {
	if s == nil {
		return &Error{place, "null is neither a boolean nor an object"}
	}
	for _, name := range append(s.Types, s.Type) {
		if name != "" && !slices.Contains(typeNames, name) {
			return &Error{at(place, "type"), "value must be one of " + strings.Join(typeNames, ", ")}
		}
	}
	if s.ItemsArray != nil && t.source.Schema != draft07 {
		return &Error{at(place, "items"), "a list of schemas is called prefixItems in this draft"}
	}
	if s.Pattern != "" {
		if err := t.patterns.add(s.Pattern, at(place, "pattern")); err != nil {
			return err
		}
	}
	for _, pattern := range slices.Sorted(maps.Keys(s.PatternProperties)) {
		if err := t.patterns.add(pattern, at(place, "patternProperties", pattern)); err != nil {
			return err
		}
	}
	p := &part{Schema: s, place: place, pointer: pointer(place), steps: ownSteps(s)}
	anchor := s.Anchor
	// "All other properties in a "$ref" object MUST be ignored." (draft-07 core, 8.3).
	if old := t.source.Schema == draft07; s.ID != "" && (!old || s.Ref == "") {
		uri, err := in.uri.Parse(s.ID)
		switch {
		case err != nil || uri.Fragment != "" && !old:
			return &Error{at(place, "$id"), fmt.Sprintf("%q is not a URI without a fragment", s.ID)}
		case uri.Fragment != "": // an anchor in the older spelling
			anchor = uri.Fragment
		default:
			in = t.newResource(uri, p.pointer)
		}
	}
	p.in = in
	for _, name := range []string{anchor, s.DynamicAnchor} {
		if name != "" {
			in.anchors[name] = p
		}
	}
	t.parts = append(t.parts, p)
	t.of[s] = p
	t.names[cmp.Or(s.ID, p.pointer, "root")] = p
	t.names[p.pointer] = p
	for _, inner := range inside(s) {
		if err := t.add(inner.schema, at(place, inner.place...), in); err != nil {
			return err
		}
		p.inner = append(p.inner, t.of[inner.schema])
	}
	return nil
}

type insideOf struct {
	place  []string
	schema *jsonschema.Schema
}

// inside returns the schemas directly in s, in the order of the library's fields.
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

// link resolves the references of a part.
func (t *tree) link(p *part) error {
	for keyword, ref := range map[string]string{"$ref": p.Ref, "$dynamicRef": p.DynamicRef} {
		if ref == "" {
			continue
		}
		to, err := t.resolve(p.in, ref)
		if err != nil {
			return &Error{at(p.place, keyword), err.Error()}
		}
		p.refs = append(p.refs, to)
		_, name, _ := strings.Cut(ref, "#")
		// "the outermost schema resource in the dynamic scope" (core, 8.2.3.2): it can be any of them.
		for _, r := range t.resources {
			if dynamic := r.anchors[name]; keyword == "$dynamicRef" && dynamic != nil && dynamic != to {
				p.refs = append(p.refs, dynamic)
			}
		}
	}
	p.here = t.applied(p)
	return nil
}

// resolve returns the part that a reference in a resource refers to.
func (t *tree) resolve(from *resource, ref string) (*part, error) {
	uri, err := from.uri.Parse(ref)
	if err != nil {
		return nil, fmt.Errorf("%q is not a reference", ref)
	}
	fragment := uri.Fragment
	uri.Fragment, uri.RawFragment = "", ""
	in, ok := t.resources[uri.String()]
	if !ok {
		return nil, fmt.Errorf("%s cannot be loaded: a schema may not refer to other documents", ref)
	}
	to := in.anchors[fragment]
	if fragment == "" || fragment[0] == '/' {
		to = t.names[in.pointer+fragment]
	}
	if to == nil {
		return nil, fmt.Errorf("%q refers to nothing", ref)
	}
	return to, nil
}

// applied returns the parts that p applies to the value itself, except those of anyOf.
func (t *tree) applied(p *part) []*part {
	list := slices.Clone(p.refs)
	for _, inner := range p.inner {
		switch inner.place[len(p.place)] {
		case "allOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies":
			list = append(list, inner)
		}
	}
	return list
}

// ownSteps returns the steps of applying a schema to a value, without the schemas that it applies in turn.
func ownSteps(s *jsonschema.Schema) int {
	const equal, looked = 64, 8 // bytes compared per step, names looked up per step
	listed, _ := json.Marshal([]any{s.Enum, s.Const})
	return 1 + len(listed)/equal + (len(s.Properties)+len(s.Required))/looked
}
