package jsonschema

import (
	"maps"
	"slices"
	"strconv"
)

// logic compiles the keywords that apply schemas to the same value (core, 10.2).
func (c *compiler) logic(n *node) {
	add := func(k check) { n.checks = append(n.checks, k) }
	if not := c.part(n, "not"); not != nil {
		add(func(r *run, v any, f *frame, _ *seen) []*Error {
			if len(r.here(not, v, f, &seen{})) == 0 {
				return f.wrong("'not' failed")
			}
			return nil
		})
	}
	for _, part := range c.schemas(n, "allOf") {
		add(func(r *run, v any, f *frame, s *seen) []*Error { return r.here(part, v, f, s) })
	}
	if parts := c.schemas(n, "anyOf"); len(parts) > 0 {
		add(func(r *run, v any, f *frame, s *seen) (wrong []*Error) {
			matched := false
			for _, part := range parts { // all of them, for what they evaluate
				w := r.here(part, v, f, s)
				matched = matched || len(w) == 0
				wrong = append(wrong, w...)
			}
			if matched {
				return nil
			}
			return wrong
		})
	}
	if parts := c.schemas(n, "oneOf"); len(parts) > 0 {
		add(func(r *run, v any, f *frame, s *seen) (wrong []*Error) {
			matched := -1
			for i, part := range parts {
				w := r.here(part, v, f, s)
				switch {
				case len(w) > 0:
					wrong = append(wrong, w...)
				case matched >= 0:
					return f.wrong("'oneOf' failed, subschemas %d, %d matched", matched, i)
				default:
					matched = i
				}
			}
			if matched >= 0 {
				return nil
			}
			return wrong
		})
	}
	c.condition(n)
}

// condition compiles if, then and else.
func (c *compiler) condition(n *node) {
	condition, then, otherwise := c.part(n, "if"), c.part(n, "then"), c.part(n, "else")
	if condition == nil || n.resource.draft < draft07 {
		return
	}
	n.checks = append(n.checks, func(r *run, v any, f *frame, s *seen) []*Error {
		branch := then
		if len(r.here(condition, v, f, s)) > 0 {
			branch = otherwise
		}
		if branch == nil {
			return nil
		}
		return r.here(branch, v, f, s)
	})
}

// unevaluated compiles what is said about members and items that nothing else was said about (core, 11).
func (c *compiler) unevaluated(n *node) {
	if n.resource.draft < draft2019 {
		return
	}
	if part := c.part(n, "unevaluatedItems"); part != nil {
		n.onArrays(func(r *run, list []any, f *frame, s *seen) (wrong []*Error) {
			for i, item := range list {
				if !s.items[i] {
					s.item(i)
					wrong = append(wrong, r.inside(part, item, f, strconv.Itoa(i))...)
				}
			}
			return wrong
		})
	}
	if part := c.part(n, "unevaluatedProperties"); part != nil {
		n.onObjects(func(r *run, object map[string]any, f *frame, s *seen) (wrong []*Error) {
			for _, name := range slices.Sorted(maps.Keys(object)) {
				if !s.members[name] {
					s.member(name)
					wrong = append(wrong, r.inside(part, object[name], f, name)...)
				}
			}
			return wrong
		})
	}
}
