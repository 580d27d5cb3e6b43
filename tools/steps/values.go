package steps

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"runnel/tools/inputs"
)

// condition is a when: a text, or two that are compared.
type condition struct {
	left, right inputs.Template
	operator    string // "", == or !=
}

func parseCondition(text string) condition {
	for _, operator := range []string{"==", "!="} {
		if left, right, ok := strings.Cut(text, " "+operator+" "); ok {
			return condition{inputs.ParseStep(left), inputs.ParseStep(right), operator}
		}
	}
	return condition{left: inputs.ParseStep(text)}
}

// holds reports whether the condition is true, with the values of its placeholders.
func (c *condition) holds(value func(name string) string) bool {
	left, right := strings.TrimSpace(c.left.Fill(value)), strings.TrimSpace(c.right.Fill(value))
	switch c.operator {
	case "==":
		return left == right
	case "!=":
		return left != right
	}
	return left != "" && left != "false" && left != "no" && left != "0"
}

// texts calls f with each text of a JSON value.
func texts(value json.RawMessage, f func(text string)) {
	_, _ = fill(value, func(text string) (any, bool) { f(text); return text, true })
}

// fill returns a JSON value with other values in place of its texts. A member whose text has no value is left
// out.
func fill(value json.RawMessage, text func(string) (v any, has bool)) (json.RawMessage, error) {
	if len(value) == 0 {
		return json.RawMessage("{}"), nil
	}
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("reading the arguments: %w", err)
	}
	v, _ = filled(v, text)
	return json.Marshal(v)
}

func filled(v any, text func(string) (any, bool)) (any, bool) {
	switch v := v.(type) {
	case string:
		return text(v)
	case []any:
		list := []any{}
		for _, item := range v {
			if item, has := filled(item, text); has {
				list = append(list, item)
			}
		}
		return list, true
	case map[string]any:
		members := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if member, has := filled(v[name], text); has {
				members[name] = member
			}
		}
		return members, true
	}
	return v, true
}

// items returns the items of a list: of a JSON array, or the lines that are not empty.
func items(text string) ([]json.RawMessage, error) {
	if strings.HasPrefix(strings.TrimSpace(text), "[") {
		var list []json.RawMessage
		if json.Unmarshal([]byte(text), &list) == nil {
			return list, nil
		}
	}
	var list []json.RawMessage
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			encoded, err := json.Marshal(line)
			if err != nil {
				return nil, err
			}
			list = append(list, encoded)
		}
	}
	return list, nil
}
