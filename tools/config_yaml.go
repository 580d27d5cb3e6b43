package tools

import (
	"fmt"
	"slices"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

func tokenPosition(t *token.Token) position {
	if t == nil || t.Position == nil {
		return position{1, 1}
	}
	return position{t.Position.Line, t.Position.Column}
}

// nodePosition is where a node begins: the token of a mapping or a list may be one within it.
func nodePosition(n ast.Node) position {
	switch n := n.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return nodePosition(n.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return nodePosition(n.Key)
	}
	return tokenPosition(n.GetToken())
}

// plain follows aliases and takes off anchors. It returns nil after an error.
func (d *decoder) plain(n ast.Node, depth int) ast.Node {
	if d.nodes++; d.nodes == maxNodes || depth > maxDepth {
		d.nodes = maxNodes
		d.fail(n, "the file unfolds to too much", fmt.Sprintf("%d values, nested at most %d deep", maxNodes, maxDepth))
	}
	if d.nodes >= maxNodes {
		return nil
	}
	for {
		switch t := n.(type) {
		case *ast.AnchorNode:
			d.anchors[t.Name.GetToken().Value] = t.Value
			n = t.Value
		case *ast.AliasNode:
			name := t.Value.GetToken().Value
			target, ok := d.anchors[name]
			if !ok {
				d.fail(n, fmt.Sprintf("no anchor &%s stands before the alias *%s", name, name), "")
				return nil
			}
			return d.plain(target, depth+1)
		case *ast.TagNode:
			d.fail(n, fmt.Sprintf("the tag %s is not known here", t.GetToken().Value), "plain values; quotes make text of one")
			return nil
		default:
			return n
		}
	}
}

// entry is one line of a mapping.
type mapEntry struct {
	key   ast.Node
	name  string
	value ast.Node
}

// entries are those of a mapping, in their order, behind them those that "<<" merges into it.
func (d *decoder) entries(n ast.Node, depth int) (list []mapEntry, ok bool) {
	m, ok := n.(ast.MapNode)
	if !ok {
		return nil, false
	}
	var merged []mapEntry
	for it := m.MapRange(); it.Next(); {
		if it.Key().IsMergeKey() {
			merged = append(merged, d.merge(it.Value(), depth+1)...)
			continue
		}
		list = append(list, mapEntry{it.Key(), keyName(it.Key()), it.Value()})
	}
	for _, e := range merged {
		if !slices.ContainsFunc(list, func(own mapEntry) bool { return own.name == e.name }) {
			list = append(list, e)
		}
	}
	return list, true
}

func (d *decoder) merge(n ast.Node, depth int) []mapEntry {
	p := d.plain(n, depth)
	if s, ok := p.(*ast.SequenceNode); ok {
		var all []mapEntry
		for _, v := range s.Values {
			all = append(all, d.merge(v, depth+1)...)
		}
		return all
	}
	if p == nil {
		return nil
	}
	list, ok := d.entries(p, depth)
	if !ok {
		d.fail(n, "<< merges no mapping", "a mapping, or a list of them")
	}
	return list
}

func keyName(key ast.MapKeyNode) string {
	if s, ok := key.(*ast.StringNode); ok {
		return s.Value
	}
	return key.GetToken().Value
}

// scalarText is a scalar as it was written.
func scalarText(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// kind names what a node is for a message.
func kind(n ast.Node) string {
	switch n := n.(type) {
	case ast.MapNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.StringNode, *ast.LiteralNode:
		return "text"
	default:
		return n.GetToken().Value
	}
}
