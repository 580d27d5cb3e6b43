package hosts

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"
)

// yamlText is YAML. The library finds the lines; an entry is a block of lines, or JSON inside braces.
type yamlText struct{}

func (yamlText) decode(text []byte) (map[string]any, error) {
	var value any
	err := yaml.Unmarshal(text, &value)
	values, ok := value.(map[string]any)
	switch {
	case err != nil:
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	case value == nil:
		return map[string]any{}, nil
	case !ok:
		return nil, errors.New("it is not a mapping of names")
	}
	return values, nil
}

// parse returns the mapping at the root, nil for an empty text.
func (f yamlText) parse(text []byte) (*yaml.Node, error) {
	if _, err := f.decode(text); err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(doc.Content) == 0 || doc.Content[0].Tag == "!!null" {
		return nil, nil
	}
	return doc.Content[0], nil // a mapping: decode has checked that
}

// of returns a mapping's key and its value, nil if it has none of that name.
func of(mapping *yaml.Node, key string) (k, v *yaml.Node) {
	for n := 0; n+1 < len(mapping.Content); n += 2 {
		if mapping.Content[n].Value == key {
			return mapping.Content[n], mapping.Content[n+1]
		}
	}
	return nil, nil
}

func (f yamlText) insert(text []byte, key, name string, entry []field) (at int, piece string, err error) {
	root, err := f.parse(text)
	if err != nil {
		return 0, "", err
	}
	if root != nil && root.Style&yaml.FlowStyle != 0 {
		if _, v := of(root, key); v != nil {
			return f.insertFlow(text, v, flowEntry(name, entry))
		}
		return f.insertFlow(text, root, quote(key)+": {"+flowEntry(name, entry)+"}")
	}
	var k, v *yaml.Node
	if root != nil {
		k, v = of(root, key)
	}
	switch {
	case k == nil:
		if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
			piece = "\n"
		}
		return len(text), piece + key + ":\n" + blockEntry(name, entry, "  "), nil
	case v.Tag == "!!null" && v.Value == "":
		at, piece = afterLine(text, k.Line)
		return at, piece + blockEntry(name, entry, "  "), nil
	case v.Kind != yaml.MappingNode:
		return 0, "", fmt.Errorf("%q is not a mapping", key)
	case v.Style&yaml.FlowStyle != 0:
		return f.insertFlow(text, v, flowEntry(name, entry))
	}
	at, piece = afterLine(text, k.Line)
	return at, piece + blockEntry(name, entry, strings.Repeat(" ", v.Column-1)), nil
}

// insertFlow inserts a member at the beginning of a mapping in braces.
func (yamlText) insertFlow(text []byte, mapping *yaml.Node, member string) (at int, piece string, err error) {
	if len(mapping.Content) > 0 {
		member += ", "
	}
	line, _ := afterLine(text, mapping.Line-1)
	at = line
	for n := 1; n < mapping.Column && at < len(text); n++ { // columns count characters
		at += len(string([]rune(string(text[at:min(len(text), at+4)]))[:1]))
	}
	if at >= len(text) || text[at] != '{' {
		return 0, "", errors.New("the place of its braces is unclear")
	}
	return at + 1, member, nil
}

// afterLine returns where the next line begins; lines count from 1. newline is "\n" if the line does not end
// with one.
func afterLine(text []byte, line int) (at int, newline string) {
	for range line {
		n := bytes.IndexByte(text[at:], '\n')
		if n < 0 {
			return len(text), "\n"
		}
		at += n + 1
	}
	return at, ""
}

func blockEntry(name string, entry []field, indent string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s:\n", indent, name)
	for _, f := range entry {
		fmt.Fprintf(&b, "%s  %s: %s\n", indent, f.name, quoteList(f.value))
	}
	return b.String()
}

func flowEntry(name string, entry []field) string {
	words := make([]string, len(entry))
	for n, f := range entry {
		words[n] = quote(f.name) + ": " + quoteList(f.value)
	}
	return quote(name) + ": {" + strings.Join(words, ", ") + "}"
}

func (f yamlText) remove(text []byte, key, name string, withKey bool) ([]byte, error) {
	root, err := f.parse(text)
	if err != nil || root == nil {
		return text, err
	}
	outer, mapping := of(root, key)
	if outer == nil || mapping.Kind != yaml.MappingNode {
		return text, nil
	}
	k, v := of(mapping, name)
	if k == nil {
		return text, nil
	}
	if mapping.Style&yaml.FlowStyle != 0 {
		return nil, errors.New("its list of servers is in braces: remove the entry yourself")
	}
	from, _ := afterLine(text, k.Line-1)
	if withKey && len(mapping.Content) == 2 {
		from, _ = afterLine(text, outer.Line-1)
	}
	to, _ := afterLine(text, lastLine(v))
	return append(bytes.Clone(text[:from]), text[to:]...), nil
}

// lastLine returns the last line of a node, as far as the library knows: with a scalar of several lines, the
// check of the edit fails.
func lastLine(n *yaml.Node) int {
	last := n.Line
	for _, c := range n.Content {
		last = max(last, lastLine(c))
	}
	return last
}
