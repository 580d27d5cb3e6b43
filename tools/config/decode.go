package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v4"

	"runnel/tools/text"
)

// decode reads the values of a text.
func (d *decoder) decode(text []byte) error {
	documents, err := d.parse(text)
	if err != nil {
		return err
	}
	for i, document := range documents {
		if i > 0 {
			d.fail(document, "a second document", "one document in a file")
			break
		}
		d.value("", document, reflect.ValueOf(d.config).Elem(), 0)
	}
	return JoinErrors(d.errs)
}

var objectType = reflect.TypeFor[Object]()

// value decodes a node into v, whose path is such as tools.test.command; the config itself has "".
func (d *decoder) value(path string, n *yaml.Node, v reflect.Value, depth int) {
	n = d.plain(n, depth)
	if n == nil {
		return
	}
	if path != "" {
		d.noteValue(path, n)
	}
	if isNull(n) {
		return // "title:" with nothing after it says nothing
	}
	switch {
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(path, n, v.Elem(), depth)
	case v.Type() == objectType:
		d.object(path, n, v, depth)
	case v.Kind() == reflect.Struct:
		d.structure(path, n, v, depth)
	case v.Kind() == reflect.Map:
		d.mapping(path, n, v, depth)
	case v.Kind() == reflect.Slice:
		d.list(path, n, v, depth)
	default:
		d.scalar(path, n, v)
	}
}

func (d *decoder) structure(path string, n *yaml.Node, v reflect.Value, depth int) {
	list, ok := d.entries(n, depth)
	if !ok && isText(n) && v.Type() == reflect.TypeFor[Command]() {
		d.tell(n, about(path)+"text where a mapping belongs", "write {command: "+wordsOf(n.Value)+"}")
		return
	}
	if !ok {
		d.fail(n, about(path)+kind(n)+" where a mapping belongs", "a mapping with "+strings.Join(fieldNames(v.Type()), ", "))
		return
	}
	for _, e := range list {
		f, ok := d.fields.of(v.Type(), e.name)
		if !ok {
			names := fieldNames(v.Type())
			hint := allow(strings.Join(names, ", "))
			if near := text.Nearest(e.name, names); len(near) > 0 {
				hint = "did you mean " + strings.Join(near, " or ") + "?"
			}
			if instead := pasted(path, e.name, e.value, list); instead != "" {
				hint = instead
			}
			d.tell(e.key, fmt.Sprintf("%sunknown key %.100q", about(path), e.name), hint)
			continue
		}
		at := Join(path, e.name)
		d.noteKey(at, e)
		d.value(at, e.value, v.Field(f), depth+1)
	}
}

// noteKey notes where the key of an entry stands.
func (d *decoder) noteKey(path string, e mapEntry) {
	d.config.places[path] = place{key: nodePosition(e.key)}
}

// noteValue notes where a value stands.
func (d *decoder) noteValue(path string, n *yaml.Node) {
	p := d.config.places[path]
	p.value = nodePosition(n)
	d.config.places[path] = p
}

func (d *decoder) mapping(path string, n *yaml.Node, v reflect.Value, depth int) {
	list, ok := d.entries(n, depth)
	if !ok {
		d.fail(n, about(path)+kind(n)+" where a mapping belongs", "a mapping of names")
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, e := range list {
		item := reflect.New(v.Type().Elem()).Elem()
		at := Join(path, e.name)
		d.noteKey(at, e)
		if isNull(e.value) && item.Kind() == reflect.String {
			d.fail(e.key, about(at)+"nothing where text belongs", `text; "" is empty text`)
			continue
		}
		d.value(at, e.value, item, depth+1)
		v.SetMapIndex(reflect.ValueOf(e.name), item)
	}
}

func (d *decoder) list(path string, n *yaml.Node, v reflect.Value, depth int) {
	if n.Kind != yaml.SequenceNode {
		switch {
		case isText(n) && strings.HasPrefix(path, "tools.") && strings.HasSuffix(path, ".command"):
			d.tell(n, about(path)+"text where a list of words belongs", "write "+wordsOf(n.Value)+", or the key shell, if a shell is to read it")
		case isText(n) && strings.HasSuffix(path, ".command"):
			d.tell(n, about(path)+"text where a list of words belongs", "write "+wordsOf(n.Value))
		case isText(n):
			d.tell(n, about(path)+"text where a list belongs", "write "+wordList([]string{n.Value}))
		default:
			d.fail(n, about(path)+kind(n)+" where a list belongs", "a list such as [a, b]")
		}
		return
	}
	list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		if isNull(item) {
			d.fail(item, about(at)+"nothing where a value belongs", `a value; "" is empty text`)
			continue
		}
		d.value(at, item, list.Index(i), depth+1)
	}
	v.Set(list)
}

func (d *decoder) scalar(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.ScalarNode {
		d.fail(n, about(path)+kind(n)+" where "+wanted(v)+" belongs", "")
		return
	}
	err := setText(v, n.Value)
	if err == nil && isText(n) && (v.Kind() == reflect.Bool || v.Type() == reflect.TypeFor[int]()) {
		d.fail(n, fmt.Sprintf("%stext where %s belongs", about(path), wanted(v)), n.Value+" without quotes")
		return
	}
	if err != nil {
		problem, allowed := err.Error(), ""
		if wrong, ok := errors.AsType[*Error](err); ok {
			problem, allowed = wrong.Problem, wrong.Allowed
		}
		d.fail(n, about(path)+problem, allowed)
	}
}

// about is the beginning of a message about a path.
func about(path string) string {
	if path == "" {
		return ""
	}
	return path + ": "
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
