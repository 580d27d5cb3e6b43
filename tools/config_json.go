package tools

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"

	"github.com/goccy/go-yaml/ast"
)

// object decodes a mapping into JSON that keeps the order of its keys.
func (d *decoder) object(path string, n ast.Node, v reflect.Value, depth int) {
	if _, ok := n.(ast.MapNode); !ok {
		d.fail(n, what(path)+kind(n)+" where a mapping belongs", "a mapping of names to JSON Schemas, or a JSON Schema of type object")
		return
	}
	v.SetBytes(d.appendJSON(nil, path, n, depth))
}

func (d *decoder) appendJSON(dst []byte, path string, n ast.Node, depth int) []byte {
	if n = d.plain(n, depth); n == nil {
		return append(dst, "null"...)
	}
	p := d.config.places[path]
	p.value = nodePosition(n)
	d.config.places[path] = p

	if list, ok := d.entries(n, depth); ok {
		dst = append(dst, '{')
		for i, e := range list {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendString(dst, e.name), ':')
			dst = d.appendJSON(dst, d.child(join(path, e.name), e), e.value, depth+1)
		}
		return append(dst, '}')
	}
	switch t := n.(type) {
	case *ast.SequenceNode:
		dst = append(dst, '[')
		for i, item := range t.Values {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = d.appendJSON(dst, fmt.Sprintf("%s[%d]", path, i), item, depth+1)
		}
		return append(dst, ']')
	case *ast.NullNode:
		return append(dst, "null"...)
	case *ast.BoolNode:
		return fmt.Append(dst, t.Value)
	case *ast.IntegerNode:
		return fmt.Append(dst, t.Value) // 0x10 is 16
	case *ast.FloatNode:
		if text := t.GetToken().Value; json.Valid([]byte(text)) {
			return append(dst, text...)
		}
		if !math.IsInf(t.Value, 0) && !math.IsNaN(t.Value) {
			return fmt.Append(dst, t.Value)
		}
	}
	text, ok := scalarText(n)
	switch n.(type) {
	case *ast.StringNode, *ast.LiteralNode:
	default:
		ok = false
	}
	if !ok {
		d.fail(n, what(path)+kind(n)+" is no value that JSON knows", "")
		return append(dst, "null"...)
	}
	return appendString(dst, text)
}

func appendString(dst []byte, s string) []byte {
	b, _ := json.Marshal(s) // a string always can be
	return append(dst, b...)
}
