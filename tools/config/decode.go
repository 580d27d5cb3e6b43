package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v4"
)

// decode decodes a text into the config.
func (d *decoder) decode(text []byte) error {
	documents, err := d.parse(text)
	if err != nil {
		return err
	}
	if len(documents) > 0 {
		d.value("", documents[0], reflect.ValueOf(d.config).Elem())
	}
	if len(documents) > 1 {
		d.fail("", documents[1], "a second document", "one document in a file")
	}
	return JoinErrors(d.errs)
}

// value decodes a node into v, the value at a path such as tools.test.command; "" is the config itself.
func (d *decoder) value(path string, n *yaml.Node, v reflect.Value) {
	n = d.enter(n)
	defer d.leave()
	if n == nil || isNull(n) {
		return // "title:" without a value sets nothing
	}
	switch {
	case v.Kind() == reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		d.begin(p.Elem(), v.Elem())
		v.Set(p)
		d.value(path, n, v.Elem())
	case v.Type() == reflect.TypeFor[Object]():
		if n.Kind != yaml.MappingNode {
			d.misplaced(path, n, "a mapping", "a mapping of names to JSON Schemas, or a JSON Schema of type object")
			return
		}
		v.SetBytes(d.appendJSON(nil, path, n))
	case n.Kind == yaml.ScalarNode && isShort(v):
		d.scalar(path, n, v)
	case v.Kind() == reflect.Struct:
		d.structure(path, n, v)
	case v.Kind() == reflect.Map:
		d.mapping(path, n, v)
	case v.Kind() == reflect.Slice:
		d.list(path, n, v)
	default:
		d.scalar(path, n, v)
	}
}

// misplaced records that a value has the wrong kind.
func (d *decoder) misplaced(path string, n *yaml.Node, wanted, allowed string) {
	d.fail(path, n, kind(n)+" where "+wanted+" belongs", allowed)
}

func (d *decoder) structure(path string, n *yaml.Node, v reflect.Value) {
	list, ok := d.entries(n)
	if !ok && isText(n) && v.Type() == reflect.TypeFor[Command]() {
		d.tell(path, n, "text where a mapping belongs", "write {command: "+wordsOf(n.Value)+"}")
		return
	}
	keys, fields := keysOf(v.Type())
	if !ok {
		d.misplaced(path, n, "a mapping", "a mapping with "+strings.Join(keys, ", "))
		return
	}
	for _, e := range list {
		f, ok := fields[e.name]
		if !ok {
			d.tell(path, e.key, fmt.Sprintf("unknown key %.100q", e.name), instead(path, e.name, list, keys))
			continue
		}
		at := Join(path, e.name)
		d.note(at, e.key, e.value)
		d.value(at, e.value, v.Field(f))
	}
}

// note records the places of a value and its key.
func (d *decoder) note(path string, key, value *yaml.Node) {
	d.config.places[path] = place{nodePosition(key), nodePosition(value)}
}

func (d *decoder) mapping(path string, n *yaml.Node, v reflect.Value) {
	list, ok := d.entries(n)
	if !ok {
		d.misplaced(path, n, "a mapping", "a mapping of names")
		return
	}
	items := reflect.MakeMap(v.Type())
	if d.over {
		for each := v.MapRange(); each.Next(); {
			items.SetMapIndex(each.Key(), each.Value())
		}
	}
	v.Set(items)
	for _, e := range list {
		item := reflect.New(v.Type().Elem()).Elem()
		d.begin(item, items.MapIndex(reflect.ValueOf(e.name)))
		at := Join(path, e.name)
		d.note(at, e.key, e.value)
		if isNull(e.value) && item.Kind() == reflect.String {
			d.fail(at, e.key, "nothing where text belongs", `text; "" is empty text`)
			continue
		}
		d.value(at, e.value, item)
		v.SetMapIndex(reflect.ValueOf(e.name), item)
	}
}

func (d *decoder) list(path string, n *yaml.Node, v reflect.Value) {
	switch {
	case n.Kind == yaml.SequenceNode:
	case !isText(n):
		d.misplaced(path, n, "a list", "a list such as [a, b]")
		return
	default:
		hint := "write " + wordList([]string{n.Value})
		if strings.HasSuffix(path, ".command") {
			hint = "write " + wordsOf(n.Value)
			if strings.HasPrefix(path, "tools.") {
				hint += ", or the key shell, if a shell is to read it"
			}
		}
		d.tell(path, n, "text where a list belongs", hint)
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		d.note(at, item, item)
		if isNull(item) {
			d.fail(at, item, "nothing where a value belongs", `a value; "" is empty text`)
			continue
		}
		d.value(at, item, v.Index(i))
	}
}

func (d *decoder) scalar(path string, n *yaml.Node, v reflect.Value) {
	err := setText(v, n.Value)
	wrong, _ := errors.AsType[*Error](err)
	switch {
	case n.Kind != yaml.ScalarNode:
		d.misplaced(path, n, wanted(v), "")
	case wrong != nil:
		d.fail(path, n, wrong.Problem, wrong.Allowed)
	case isText(n) && (v.Kind() == reflect.Bool || v.Type() == reflect.TypeFor[int]()):
		d.misplaced(path, n, wanted(v), n.Value+" without quotes")
	case strings.Contains(n.Value, "\x00"):
		d.fail(path, n, "holds a NUL character, which no command can take", "")
	}
}

// appendJSON decodes a value into JSON, with its keys in the order of the file.
func (d *decoder) appendJSON(dst []byte, path string, n *yaml.Node) []byte {
	n = d.enter(n)
	defer d.leave()
	if n == nil || isNull(n) {
		return append(dst, "null"...)
	}
	if list, ok := d.entries(n); ok {
		dst = append(dst, '{')
		for i, e := range list {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendString(dst, e.name), ':')
			at := Join(path, e.name)
			d.note(at, e.key, e.value)
			dst = d.appendJSON(dst, at, e.value)
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
			at := fmt.Sprintf("%s[%d]", path, i)
			d.note(at, item, item)
			dst = d.appendJSON(dst, at, item)
		}
		return append(dst, ']')
	case isText(n):
		return appendString(dst, n.Value)
	case json.Valid([]byte(n.Value)):
		return append(dst, n.Value...)
	}
	var value any // 0x10 is 16
	if n.Decode(&value) == nil {
		if b, err := json.Marshal(value); err == nil { // it cannot encode NaN and infinity
			return append(dst, b...)
		}
	}
	d.fail(path, n, kind(n)+" is not a value that JSON knows", "")
	return append(dst, "null"...)
}

func appendString(dst []byte, s string) []byte {
	b, _ := json.Marshal(s) // never fails for a string
	return append(dst, b...)
}

// keysOf returns the keys of a struct, in order, and the fields that they set.
func keysOf(t reflect.Type) (keys []string, fields map[string]int) {
	fields = map[string]int{}
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("yaml"); key != "" {
			keys = append(keys, key)
			fields[key] = i
		}
	}
	return keys, fields
}

// Parse reads the text of a config file over the defaults. It is strict: unknown keys and values of a wrong
// type are errors. The error joins all of them, each with its place.
//
// The YAML library parses, and its tree is decoded here, for three reasons: an error names the place and what
// is allowed there; text stays as it was written (in an argv, 1.10 is not 1.1, and yes is not true); and
// errors that are found later need the places, too.
func Parse(file string, text []byte) (*Config, error) {
	c := Default()
	c.places = map[string]place{}
	c.file, c.lines = file, strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
	if len(text) > MaxFile {
		return nil, c.mistake(position{1, 1}, "the file is too large", allow(Size(MaxFile).String()+" at most"))
	}
	if err := (&decoder{config: c}).decode(text); err != nil {
		return nil, err
	}
	return c, nil
}

// MaxFile bounds the text that the library parses, in bytes.
const MaxFile = 1 << 20

// Read reads the text of a config file for Parse. It stops where Parse refuses the file as too large, since
// /dev/zero never ends.
func Read(r io.Reader) ([]byte, error) { return io.ReadAll(io.LimitReader(r, MaxFile+1)) }
