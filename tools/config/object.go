package config

import (
	"encoding/json"
	"fmt"
	"reflect"

	"go.yaml.in/yaml/v4"
)

// Object is a JSON object that keeps the order in which its keys were written: a model reads the
// arguments of a tool in that order. In YAML it is a mapping, whatever it holds.
type Object json.RawMessage

// MarshalJSON returns the object as it is.
func (o Object) MarshalJSON() ([]byte, error) { return json.RawMessage(o).MarshalJSON() }

// UnmarshalJSON takes the object as it is; null is none.
func (o *Object) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*o = nil
		return nil
	}
	return (*json.RawMessage)(o).UnmarshalJSON(data)
}

// object decodes a mapping into JSON that keeps the order of its keys.
func (d *decoder) object(path string, n *yaml.Node, v reflect.Value, depth int) {
	if n.Kind != yaml.MappingNode {
		d.fail(n, about(path)+kind(n)+" where a mapping belongs", "a mapping of names to JSON Schemas, or a JSON Schema of type object")
		return
	}
	v.SetBytes(d.appendJSON(nil, path, n, depth))
}

func (d *decoder) appendJSON(dst []byte, path string, n *yaml.Node, depth int) []byte {
	if n = d.plain(n, depth); n == nil {
		return append(dst, "null"...)
	}
	d.noteValue(path, n)
	if list, ok := d.entries(n, depth); ok {
		dst = append(dst, '{')
		for i, e := range list {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendString(dst, e.name), ':')
			at := Join(path, e.name)
			d.noteKey(at, e)
			dst = d.appendJSON(dst, at, e.value, depth+1)
		}
		return append(dst, '}')
	}
	switch {
	case n.Kind == yaml.SequenceNode:
		dst = append(dst, '[')
		for i, item := range n.Content {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = d.appendJSON(dst, fmt.Sprintf("%s[%d]", path, i), item, depth+1)
		}
		return append(dst, ']')
	case isText(n):
		return appendString(dst, n.Value)
	case isNull(n):
		return append(dst, "null"...)
	case json.Valid([]byte(n.Value)):
		return append(dst, n.Value...)
	}
	var value any // 0x10 is 16
	if n.Decode(&value) == nil {
		if b, err := json.Marshal(value); err == nil { // neither infinite nor no number
			return append(dst, b...)
		}
	}
	d.fail(n, about(path)+kind(n)+" is no value that JSON knows", "")
	return append(dst, "null"...)
}

func appendString(dst []byte, s string) []byte {
	b, _ := json.Marshal(s) // a string always can be
	return append(dst, b...)
}
