package jsonschema

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Compile compiles a schema: of draft 2020-12, or of the one that it names with $schema. The error is an *Error with the
// place in the schema, unless it is no JSON.
func Compile(source []byte) (*Schema, error) {
	doc, err := decode(source)
	if err != nil {
		return nil, fmt.Errorf("reading the schema: %w", err)
	}
	c := &compiler{doc: doc, nodes: map[string]*node{}, resources: map[string]*resource{}}
	root := c.compile(doc, nil, &resource{uri: &url.URL{}, draft: draft2020})
	for len(c.references) > 0 && c.err == nil { // to resolve one may compile more
		next := c.references[0]
		c.references = c.references[1:]
		next()
	}
	if c.err != nil {
		return nil, c.err
	}
	if root.cost(map[*node]int{}, map[*node]bool{}) >= maxCost {
		return nil, &Error{Problem: fmt.Sprintf("the schema explodes: by its references, more than %d parts of it would be applied to one value", maxCost)}
	}
	return &Schema{root}, nil
}

type compiler struct {
	doc        any
	nodes      map[string]*node     // by the pointer to their place
	resources  map[string]*resource // by their URI
	references []func()             // what is to be resolved once all nodes are there
	err        error                // the first
}

// resource is a part of the document with an identifier of its own (core, 4.3.5), or all of it.
type resource struct {
	uri     *url.URL
	place   []string
	draft   draft
	root    *node
	anchors map[string]*node
	dynamic map[string]bool // the anchors of $dynamicAnchor
}

// draft is a version of JSON Schema.
type draft int

const (
	draft06   draft = 6
	draft07   draft = 7
	draft2019 draft = 2019
	draft2020 draft = 2020
)

func draftOf(name string) (draft, bool) {
	name = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(name, "http://"), "https://"), "#")
	d, ok := map[string]draft{
		"json-schema.org/draft-06/schema":      draft06,
		"json-schema.org/draft-07/schema":      draft07,
		"json-schema.org/draft/2019-09/schema": draft2019,
		"json-schema.org/draft/2020-12/schema": draft2020,
		"json-schema.org/schema":               draft2020,
	}[name]
	return d, ok
}

func (c *compiler) fail(place []string, format string, args ...any) {
	if c.err == nil {
		c.err = &Error{slices.Clone(place), fmt.Sprintf(format, args...)}
	}
}

// pointer writes a place as a JSON pointer (RFC 6901) in a fragment.
func pointer(place []string) string {
	p := []byte{'#'}
	for _, name := range place {
		p = append(append(p, '/'), escaper.Replace(name)...)
	}
	return string(p)
}

var (
	escaper   = strings.NewReplacer("~", "~0", "/", "~1")
	unescaper = strings.NewReplacer("~1", "/", "~0", "~")
)

func at(place []string, name ...string) []string { return append(slices.Clip(place), name...) }

// compile compiles what stands at a place, which belongs to a resource.
func (c *compiler) compile(v any, place []string, in *resource) *node {
	n := &node{place: place, resource: in}
	c.nodes[pointer(place)] = n
	switch v := v.(type) {
	case bool:
		if !v {
			n.first = []check{func(_ *run, _ any, f *frame, _ *seen) []*Error { return f.wrong("false schema") }}
		}
		c.identify(n, in)
		return n
	case map[string]any:
		n.keywords = v
	default:
		c.fail(place, "got %s, want boolean or object", kindOf(v))
		return n
	}
	c.identify(n, in)
	for _, name := range []string{"$defs", "definitions"} { // which apply nothing
		c.named(n, name)
	}
	n.parts = nil
	if c.reference(n) && n.resource.draft < draft2019 { // "All other properties in a "$ref" object MUST be ignored." (draft-07 core, 8.3)
		return n
	}
	c.kinds(n)
	c.numbers(n)
	c.strings(n)
	c.objects(n)
	c.arrays(n)
	c.logic(n)
	c.unevaluated(n)
	return n
}

// identify gives a node its resource, which is a new one if it has an identifier, and its anchors.
func (c *compiler) identify(n *node, in *resource) {
	id, hasID := c.text(n, "$id")
	_, hasRef := n.keywords["$ref"]
	if hasRef && in.draft < draft2019 {
		hasID = false
	}
	anchor := ""
	if hasID && in.draft < draft2019 && strings.HasPrefix(id, "#") { // an anchor's older spelling
		anchor, hasID = id[1:], false
	}
	if hasID || len(n.place) == 0 {
		uri, err := in.uri.Parse(id)
		if err != nil || uri.Fragment != "" {
			c.fail(at(n.place, "$id"), "%q is no URI without a fragment", id)
			return
		}
		uri.Fragment = ""
		n.resource = &resource{uri: uri, place: n.place, draft: in.draft, root: n, anchors: map[string]*node{}, dynamic: map[string]bool{}}
		if _, taken := c.resources[uri.String()]; taken {
			c.fail(at(n.place, "$id"), "%q identifies two parts of the schema", id)
		}
		c.resources[uri.String()] = n.resource
		if name, ok := c.text(n, "$schema"); ok {
			if n.resource.draft, ok = draftOf(name); !ok {
				c.fail(at(n.place, "$schema"), "%q is not known here; use 2020-12, 2019-09, draft-07 or draft-06", name)
			}
		}
	}
	for _, keyword := range []string{"$anchor", "$dynamicAnchor"} {
		if name, ok := c.text(n, keyword); ok && n.resource.draft >= draft2019 {
			anchor = name
			n.resource.dynamic[name] = keyword == "$dynamicAnchor"
			n.resource.anchors[name] = n
		}
	}
	if anchor != "" {
		n.resource.anchors[anchor] = n
	}
	if yes, _ := n.keywords["$recursiveAnchor"].(bool); yes {
		n.resource.dynamic[""] = true // $recursiveRef is a $dynamicRef to the root
		n.resource.anchors[""] = n
	}
}

// reference compiles $ref and its kin. It reports whether there is a $ref.
func (c *compiler) reference(n *node) bool {
	for _, keyword := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
		ref, ok := c.text(n, keyword)
		if !ok || keyword == "$dynamicRef" && n.resource.draft != draft2020 || keyword == "$recursiveRef" && n.resource.draft != draft2019 {
			continue
		}
		var target *node
		c.references = append(c.references, func() {
			var err error
			if target, err = c.resolve(n.resource, ref); err != nil {
				c.fail(at(n.place, keyword), "%v", err)
				return
			}
			n.parts = append(n.parts, target)
		})
		_, name, _ := strings.Cut(ref, "#")
		n.checks = append(n.checks, func(r *run, v any, f *frame, s *seen) []*Error {
			to := target
			if keyword != "$ref" && target.resource.dynamic[name] && target.resource.anchors[name] == target {
				// "the initially resolved starting point URI ... is replaced by the outermost schema resource in the
				// dynamic scope that defines an identically named fragment with $dynamicAnchor" (core, 8.2.3.2).
				for o := f; o != nil; o = o.outer {
					if o.node.resource.dynamic[name] {
						to = o.node.resource.anchors[name]
					}
				}
			}
			return r.here(to, v, f, s)
		})
	}
	_, ok := n.keywords["$ref"]
	return ok
}

// resolve finds what a reference in a resource refers to.
func (c *compiler) resolve(from *resource, ref string) (*node, error) {
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
	if fragment == "" {
		return in.root, nil
	}
	path, isPointer := strings.CutPrefix(fragment, "/")
	if !isPointer {
		if n := in.anchors[fragment]; n != nil {
			return n, nil
		}
		return nil, fmt.Errorf("anchor in %q not found", ref)
	}
	place := slices.Clip(in.place)
	for name := range strings.SplitSeq(path, "/") {
		place = append(place, unescaper.Replace(name))
	}
	if n := c.nodes[pointer(place)]; n != nil {
		return n, nil
	}
	v, err := find(c.doc, place)
	if err != nil {
		return nil, fmt.Errorf("json-pointer in %q not found", ref)
	}
	return c.compile(v, place, in), nil // it stands below a keyword that is not known
}

func find(v any, place []string) (any, error) {
	for _, name := range place {
		switch in := v.(type) {
		case map[string]any:
			part, ok := in[name]
			if !ok {
				return nil, errors.New("no member " + name)
			}
			v = part
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(in) {
				return nil, errors.New("no item " + name)
			}
			v = in[i]
		default:
			return nil, errors.New("no value at " + name)
		}
	}
	return v, nil
}

// What keywords may hold. Each returns false if there is no such keyword, and notes one of another kind.

func (c *compiler) text(n *node, keyword string) (string, bool) {
	v, ok := n.keywords[keyword]
	s, isText := v.(string)
	if ok && !isText {
		c.fail(at(n.place, keyword), "got %s, want string", kindOf(v))
	}
	return s, ok && isText
}

func (c *compiler) truth(n *node, keyword string) bool {
	v, ok := n.keywords[keyword]
	b, isTruth := v.(bool)
	if ok && !isTruth {
		c.fail(at(n.place, keyword), "got %s, want boolean", kindOf(v))
	}
	return b
}

func (c *compiler) number(n *node, keyword string) (decimal, bool) {
	v, ok := n.keywords[keyword]
	text, isNumber := numberOf(v)
	if ok && !isNumber {
		c.fail(at(n.place, keyword), "got %s, want number", kindOf(v))
	}
	return parseDecimal(text), ok && isNumber
}

// count is a number of things: an integer, 0 or more.
func (c *compiler) count(n *node, keyword string) (int, bool) {
	d, ok := c.number(n, keyword)
	if !ok {
		return 0, false
	}
	if !d.isInteger() {
		c.fail(at(n.place, keyword), "got number, want integer")
	}
	if d.negative {
		c.fail(at(n.place, keyword), "minimum: got %s, want 0", n.keywords[keyword])
	}
	return d.int(), true
}

func (c *compiler) list(n *node, keyword string) ([]any, bool) {
	v, ok := n.keywords[keyword]
	list, isList := v.([]any)
	if ok && !isList {
		c.fail(at(n.place, keyword), "got %s, want array", kindOf(v))
	}
	return list, ok && isList
}

// names is a list of strings, each once.
func (c *compiler) names(v any, place []string) []string {
	list, ok := v.([]any)
	if !ok {
		c.fail(place, "got %s, want array", kindOf(v))
	}
	var names []string
	for i, item := range list {
		s, ok := item.(string)
		if !ok {
			c.fail(at(place, strconv.Itoa(i)), "got %s, want string", kindOf(item))
		}
		if j := slices.Index(names, s); j >= 0 {
			c.fail(place, "items at %d and %d are equal", j, i)
		}
		names = append(names, s)
	}
	return names
}

func (c *compiler) object(n *node, keyword string) (map[string]any, bool) {
	v, ok := n.keywords[keyword]
	object, isObject := v.(map[string]any)
	if ok && !isObject {
		c.fail(at(n.place, keyword), "got %s, want object", kindOf(v))
	}
	return object, ok && isObject
}

// part compiles a schema within the one of n. It returns nil if there is none.
func (c *compiler) part(n *node, place ...string) *node {
	v, err := find(n.keywords, place)
	if err != nil {
		return nil
	}
	p := c.compile(v, at(n.place, place...), n.resource)
	n.parts = append(n.parts, p)
	return p
}

// schemas is a list of schemas, one at least.
func (c *compiler) schemas(n *node, keyword string) []*node {
	list, ok := c.list(n, keyword)
	if ok && len(list) == 0 {
		c.fail(at(n.place, keyword), "minItems: got 0, want 1")
	}
	var nodes []*node
	for i := range list {
		nodes = append(nodes, c.part(n, keyword, strconv.Itoa(i)))
	}
	return nodes
}

// named is an object of schemas.
func (c *compiler) named(n *node, keyword string) map[string]*node {
	object, ok := c.object(n, keyword)
	if !ok {
		return nil
	}
	nodes := map[string]*node{}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		nodes[name] = c.part(n, keyword, name)
	}
	return nodes
}
