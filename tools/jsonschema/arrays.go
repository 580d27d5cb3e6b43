package jsonschema

import "strconv"

// arrays compiles the keywords for arrays (core, 10.3.1; validation, 6.4).
func (c *compiler) arrays(n *node) {
	c.bound(n, "minItems", "maxItems", func(v any) (int, bool) {
		list, ok := v.([]any)
		return len(list), ok
	})
	if c.truth(n, "uniqueItems") {
		n.onArrays(func(_ *run, list []any, f *frame, _ *seen) []*Error {
			known := map[string]int{}
			for i, item := range list {
				key := canonical(item)
				if j, ok := known[key]; ok {
					return f.wrong("items at %d and %d are equal", j, i)
				}
				known[key] = i
			}
			return nil
		})
	}
	c.items(n)
	c.contains(n)
}

func (n *node) onArrays(c func(r *run, list []any, f *frame, s *seen) []*Error) {
	n.checks = append(n.checks, func(r *run, v any, f *frame, s *seen) []*Error {
		if list, ok := v.([]any); ok {
			return c(r, list, f, s)
		}
		return nil
	})
}

// items compiles what the first items must be, each, and the rest: prefixItems and items; before 2020-12, items and
// additionalItems.
func (c *compiler) items(n *node) {
	first, rest := "prefixItems", "items"
	if n.resource.draft < draft2020 {
		if _, isList := n.keywords["items"].([]any); isList {
			first, rest = "items", "additionalItems"
		} else {
			first = ""
		}
	}
	var each []*node
	if first == "prefixItems" {
		each = c.schemas(n, first)
	} else if list, ok := n.keywords[first].([]any); ok {
		for i := range list {
			each = append(each, c.part(n, first, strconv.Itoa(i)))
		}
	}
	others := c.part(n, rest)
	if len(each) == 0 && others == nil {
		return
	}
	n.onArrays(func(r *run, list []any, f *frame, s *seen) (wrong []*Error) {
		if rest == "additionalItems" && n.keywords[rest] == false && len(list) > len(each) {
			wrong = f.wrong("last %d additionalItem(s) not allowed", len(list)-len(each))
			list = list[:len(each)]
		}
		for i, item := range list {
			part := others
			if i < len(each) {
				part = each[i]
			}
			if part == nil {
				break
			}
			s.item(i)
			wrong = append(wrong, r.inside(part, item, f, strconv.Itoa(i))...)
		}
		return wrong
	})
}

// contains compiles contains, minContains and maxContains.
func (c *compiler) contains(n *node) {
	part := c.part(n, "contains")
	if part == nil {
		return
	}
	least, most := 1, -1
	if n.resource.draft >= draft2019 {
		if limit, ok := c.count(n, "minContains"); ok {
			least = limit
		}
		if limit, ok := c.count(n, "maxContains"); ok {
			most = limit
		}
	}
	n.onArrays(func(r *run, list []any, f *frame, s *seen) []*Error {
		matched := 0
		for i, item := range list {
			if len(r.inside(part, item, f, strconv.Itoa(i))) == 0 {
				matched++
				if n.resource.draft >= draft2020 {
					s.item(i)
				}
			}
		}
		switch {
		case matched < least && least == 1:
			return f.wrong("no items match contains schema")
		case matched < least:
			return f.wrong("min %d items required to match contains schema, but matched %d", least, matched)
		case most >= 0 && matched > most:
			return f.wrong("max %d items may match contains schema, but matched %d", most, matched)
		}
		return nil
	})
}
