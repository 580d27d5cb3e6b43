package jsonschema

import (
	"maps"
	"regexp"
	"slices"
)

// objects compiles the keywords for objects (core, 10.3.2; validation, 6.5).
func (c *compiler) objects(n *node) {
	c.bound(n, "minProperties", "maxProperties", func(v any) (int, bool) {
		object, ok := v.(map[string]any)
		return len(object), ok
	})
	if v, ok := n.keywords["required"]; ok {
		n.requires("", c.names(v, at(n.place, "required")))
	}
	c.dependencies(n)
	c.members(n)
	if names := c.part(n, "propertyNames"); names != nil {
		n.onObjects(func(r *run, object map[string]any, f *frame, _ *seen) (wrong []*Error) {
			for _, name := range slices.Sorted(maps.Keys(object)) {
				for _, e := range r.inside(names, name, f, name) {
					wrong = append(wrong, &Error{f.place(), "invalid propertyName " + quote(name) + ": " + e.Problem})
				}
			}
			return wrong
		})
	}
}

func (n *node) onObjects(c func(r *run, object map[string]any, f *frame, s *seen) []*Error) {
	n.checks = append(n.checks, func(r *run, v any, f *frame, s *seen) []*Error {
		if object, ok := v.(map[string]any); ok {
			return c(r, object, f, s)
		}
		return nil
	})
}

// requires asks for members, if the one of a name is there; "" always is.
func (n *node) requires(with string, names []string) {
	n.onObjects(func(_ *run, object map[string]any, f *frame, _ *seen) []*Error {
		if _, ok := object[with]; with != "" && !ok {
			return nil
		}
		var missing []string
		for _, name := range names {
			if _, ok := object[name]; !ok {
				missing = append(missing, name)
			}
		}
		switch {
		case len(missing) == 0:
			return nil
		case with != "":
			return f.wrong("properties %s required, if %s exists", quoteAll(missing), quote(with))
		case len(missing) == 1:
			return f.wrong("missing property %s", quote(missing[0]))
		}
		return f.wrong("missing properties %s", quoteAll(missing))
	})
}

// dependencies compiles what the presence of a member asks for; "dependencies" is what both keywords were once.
func (c *compiler) dependencies(n *node) {
	applies := func(name string, part *node) {
		n.onObjects(func(r *run, object map[string]any, f *frame, s *seen) []*Error {
			if _, ok := object[name]; !ok {
				return nil
			}
			return r.here(part, object, f, s)
		})
	}
	for _, keyword := range []string{"dependencies", "dependentRequired", "dependentSchemas"} {
		object, _ := c.object(n, keyword)
		for _, name := range slices.Sorted(maps.Keys(object)) {
			_, isList := object[name].([]any)
			switch {
			case keyword == "dependentRequired", keyword == "dependencies" && isList:
				n.requires(name, c.names(object[name], at(n.place, keyword, name)))
			default:
				applies(name, c.part(n, keyword, name))
			}
		}
	}
}

// members compiles properties, patternProperties and additionalProperties, which is about the members left over.
func (c *compiler) members(n *node) {
	type byPattern struct {
		pattern *regexp.Regexp
		part    *node
	}
	named := c.named(n, "properties")
	var patterns []byPattern
	patternParts := c.named(n, "patternProperties")
	for _, text := range slices.Sorted(maps.Keys(patternParts)) {
		patterns = append(patterns, byPattern{c.pattern(text, at(n.place, "patternProperties", text)), patternParts[text]})
	}
	others := c.part(n, "additionalProperties")
	none := n.keywords["additionalProperties"] == false
	if len(named) == 0 && len(patterns) == 0 && others == nil {
		return
	}
	n.onObjects(func(r *run, object map[string]any, f *frame, s *seen) (wrong []*Error) {
		var additional []string
		for _, name := range slices.Sorted(maps.Keys(object)) {
			part, known := named[name]
			if known {
				wrong = append(wrong, r.inside(part, object[name], f, name)...)
			}
			for _, p := range patterns {
				if p.pattern.MatchString(name) {
					known = true
					wrong = append(wrong, r.inside(p.part, object[name], f, name)...)
				}
			}
			switch {
			case known:
			case none:
				additional = append(additional, name)
				continue
			case others != nil:
				wrong = append(wrong, r.inside(others, object[name], f, name)...)
			default:
				continue
			}
			s.member(name)
		}
		if len(additional) > 0 {
			wrong = append(wrong, f.wrong("additional properties %s not allowed", quoteAll(additional))...)
		}
		return wrong
	})
}
