package jsonschema

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

var kindNames = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

// kindOf names the kind of a value as "type" does, but an integer is a number.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	}
	return "object"
}

// canonical writes values so that equal ones are equal: 1.0 is 1, and members have no order.
func canonical(v any) string {
	switch v := v.(type) {
	case json.Number:
		return fmt.Sprint(parseDecimal(string(v)))
	case []any:
		list := make([]string, len(v))
		for i, item := range v {
			list[i] = canonical(item)
		}
		return "[" + strings.Join(list, ",") + "]"
	case map[string]any:
		var b strings.Builder
		for _, name := range slices.Sorted(maps.Keys(v)) {
			fmt.Fprintf(&b, "%q:%s,", name, canonical(v[name]))
		}
		return "{" + b.String() + "}"
	case string:
		return fmt.Sprintf("%q", v)
	}
	return fmt.Sprint(v)
}

// quote writes text in single quotes.
func quote(s string) string {
	s = strings.ReplaceAll(fmt.Sprintf("%q", s), `\"`, `"`)
	return "'" + strings.ReplaceAll(s[1:len(s)-1], "'", `\'`) + "'"
}

func quoteAll(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = quote(s)
	}
	return strings.Join(quoted, ", ")
}

// allowed words what a value must be.
func allowed(values []any) string {
	words := make([]string, len(values))
	for i, v := range values {
		if s, ok := v.(string); ok {
			words[i] = quote(s)
		} else {
			b, _ := json.Marshal(v) // it was decoded
			words[i] = string(b)
		}
	}
	if len(words) == 1 {
		return "value must be " + words[0]
	}
	return "value must be one of " + strings.Join(words, ", ")
}

// kinds compiles the keywords for values of any kind: type, const and enum (validation, 6.1).
func (c *compiler) kinds(n *node) {
	if v, ok := n.keywords["type"]; ok {
		place := at(n.place, "type")
		var kinds []string
		if one, ok := v.(string); ok {
			kinds = []string{one}
		} else if _, ok := v.([]any); ok {
			if kinds = c.names(v, place); len(kinds) == 0 {
				c.fail(place, "minItems: got 0, want 1")
			}
		} else {
			c.fail(place, "got %s, want string or array", kindOf(v))
		}
		for _, kind := range kinds {
			if !slices.Contains(kindNames, kind) {
				c.fail(place, "value must be one of %s", quoteAll(kindNames))
			}
		}
		n.first = append(n.first, func(_ *run, v any, f *frame, _ *seen) []*Error {
			kind := kindOf(v)
			if slices.Contains(kinds, kind) {
				return nil
			}
			if text, ok := numberOf(v); ok && slices.Contains(kinds, "integer") && parseDecimal(text).isInteger() {
				return nil
			}
			return f.wrong("got %s, want %s", kind, strings.Join(kinds, " or "))
		})
	}
	oneOf := func(values []any) {
		known := map[string]bool{}
		for _, v := range values {
			known[canonical(v)] = true
		}
		n.first = append(n.first, func(_ *run, v any, f *frame, _ *seen) []*Error {
			if known[canonical(v)] {
				return nil
			}
			return f.wrong("%s", allowed(values))
		})
	}
	if v, ok := n.keywords["const"]; ok {
		oneOf([]any{v})
	}
	if list, ok := c.list(n, "enum"); ok {
		oneOf(list)
	}
}

// numbers compiles the keywords for numbers (validation, 6.2).
func (c *compiler) numbers(n *node) {
	for _, bound := range []struct {
		keyword string
		good    func(order int) bool
	}{
		{"minimum", func(order int) bool { return order >= 0 }},
		{"maximum", func(order int) bool { return order <= 0 }},
		{"exclusiveMinimum", func(order int) bool { return order > 0 }},
		{"exclusiveMaximum", func(order int) bool { return order < 0 }},
	} {
		if limit, ok := c.number(n, bound.keyword); ok {
			n.onNumbers(bound.keyword, func(d decimal) bool { return bound.good(d.compare(limit)) })
		}
	}
	if step, ok := c.number(n, "multipleOf"); ok {
		if step.sign() <= 0 {
			c.fail(at(n.place, "multipleOf"), "exclusiveMinimum: got %s, want 0", n.keywords["multipleOf"])
			return
		}
		n.onNumbers("multipleOf", func(d decimal) bool { return d.multipleOf(step) })
	}
}

func (n *node) onNumbers(keyword string, good func(decimal) bool) {
	n.checks = append(n.checks, func(_ *run, v any, f *frame, _ *seen) []*Error {
		text, ok := numberOf(v)
		if !ok || good(parseDecimal(text)) {
			return nil
		}
		return f.wrong("%s: got %s, want %s", keyword, text, n.keywords[keyword])
	})
}

// strings compiles the keywords for strings (validation, 6.3). A length is counted in characters.
func (c *compiler) strings(n *node) {
	length := func(v any) (int, bool) {
		s, ok := v.(string)
		return utf8.RuneCountInString(s), ok
	}
	c.bound(n, "minLength", "maxLength", length)
	if text, ok := c.text(n, "pattern"); ok {
		pattern := c.pattern(text, at(n.place, "pattern"))
		n.checks = append(n.checks, func(_ *run, v any, f *frame, _ *seen) []*Error {
			s, ok := v.(string)
			if !ok || pattern.MatchString(s) {
				return nil
			}
			return f.wrong("%s does not match pattern %s", quote(s), quote(text))
		})
	}
}

// pattern compiles a regular expression. It never returns nil.
func (c *compiler) pattern(text string, place []string) *regexp.Regexp {
	pattern, err := regexp.Compile(text)
	if err != nil {
		c.fail(place, "%s is not valid regex: %v", quote(text), err)
		return &regexp.Regexp{}
	}
	return pattern
}

// bound compiles a least and a greatest size of what size measures.
func (c *compiler) bound(n *node, least, most string, size func(any) (int, bool)) {
	for _, keyword := range []string{least, most} {
		limit, ok := c.count(n, keyword)
		if !ok {
			continue
		}
		n.checks = append(n.checks, func(_ *run, v any, f *frame, _ *seen) []*Error {
			got, ok := size(v)
			if !ok || keyword == least && got >= limit || keyword == most && got <= limit {
				return nil
			}
			return f.wrong("%s: got %d, want %d", keyword, got, limit)
		})
	}
}
