package strict

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Decode decodes a text of YAML into the struct that to points at. An empty text sets nothing. Its error
// joins all mistakes, each with its place.
func (f *File) Decode(text []byte, to any, o Options) error {
	d := &decoder{File: f, options: o}
	documents, err := d.parse(text)
	if err != nil {
		return err
	}
	if len(documents) > 0 {
		d.value("", documents[0], reflect.ValueOf(to).Elem())
	}
	if len(documents) > 1 {
		d.fail("", documents[1], "a second document", "one document in a file")
	}
	return JoinErrors(d.errs)
}

// value decodes a node into v, the value at a path such as tools.test.command; "" is the whole.
func (d *decoder) value(path string, n *yaml.Node, v reflect.Value) {
	n = d.enter(n)
	defer d.leave()
	if n == nil || isNull(n) {
		return // "title:" without a value sets nothing
	}
	switch {
	case v.Kind() == reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		if d.options.Over && !v.IsNil() {
			p.Elem().Set(v.Elem())
		}
		v.Set(p)
		d.value(path, n, v.Elem())
	case v.Type() == reflect.TypeFor[json.RawMessage]():
		if n.Kind != yaml.MappingNode {
			d.misplaced(path, n, "a mapping",
				"a mapping of names to JSON Schemas, or a JSON Schema of type object")
			return
		}
		v.SetBytes(d.appendJSON(nil, path, n))
	case n.Kind == yaml.ScalarNode && v.Addr().Type().Implements(reflect.TypeFor[Short]()):
		d.scalar(path, n, v)
	case n.Kind == yaml.SequenceNode && v.Addr().Type().Implements(reflect.TypeFor[List]()):
		_, fields := Keys(v.Type())
		d.list(path, n, v.Field(fields[v.Addr().Interface().(List).ListKey()]))
	case v.Kind() == reflect.Struct:
		d.structure(path, n, v)
	case v.Kind() == reflect.Map:
		d.mapping(path, n, v)
	case v.Kind() == reflect.Slice && n.Kind == yaml.MappingNode &&
		v.Type().Implements(reflect.TypeFor[Single]()):
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		d.value(path, n, v.Index(0))
	case v.Kind() == reflect.Slice:
		d.list(path, n, v)
	default:
		d.scalar(path, n, v)
	}
}

// words returns the texts of a mapping's values: of a list, those of its items.
func words(list []mapEntry) map[string][]string {
	words := map[string][]string{}
	for _, e := range list {
		if e.value.Kind == yaml.ScalarNode {
			words[e.name] = []string{e.value.Value}
		}
		for _, n := range e.value.Content {
			words[e.name] = append(words[e.name], n.Value)
		}
	}
	return words
}

// misplaced records that a value has the wrong kind.
func (d *decoder) misplaced(path string, n *yaml.Node, wanted, allowed string) {
	d.fail(path, n, kind(n)+" where "+wanted+" belongs", allowed)
}

func (d *decoder) structure(path string, n *yaml.Node, v reflect.Value) {
	list, ok := d.entries(n)
	if rewriter, is := v.Addr().Interface().(Rewriter); !ok && is && isText(n) {
		d.tell(path, n, "text where a mapping belongs", "write "+rewriter.Rewrite(n.Value))
		return
	}
	keys, fields := Keys(v.Type())
	if !ok {
		d.misplaced(path, n, "a mapping", "a mapping with "+strings.Join(keys, ", "))
		return
	}
	for _, e := range list {
		f, ok := fields[e.name]
		if !ok {
			d.tell(path, e.key, fmt.Sprintf("unknown key %.100q", e.name),
				d.options.Instead(path, e.name, words(list), keys))
			continue
		}
		at := Join(path, e.name)
		d.note(at, e.key, e.value)
		d.value(at, e.value, v.Field(f))
	}
}

// note records the places of a value and its key.
func (d *decoder) note(path string, key, value *yaml.Node) {
	d.places[path] = place{nodePosition(key), nodePosition(value)}
}

func (d *decoder) mapping(path string, n *yaml.Node, v reflect.Value) {
	list, ok := d.entries(n)
	if !ok {
		d.misplaced(path, n, "a mapping", "a mapping of names")
		return
	}
	items := reflect.MakeMap(v.Type())
	if d.options.Over {
		for each := v.MapRange(); each.Next(); {
			items.SetMapIndex(each.Key(), each.Value())
		}
	}
	v.Set(items)
	for _, e := range list {
		item := reflect.New(v.Type().Elem()).Elem()
		if was := items.MapIndex(reflect.ValueOf(e.name)); was.IsValid() {
			item.Set(was)
		}
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
		d.tell(path, n, "text where a list belongs", "write "+d.options.List(path, n.Value))
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
	err := SetText(v, n.Value)
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
			dst = append(AppendString(dst, e.name), ':')
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
		return AppendString(dst, n.Value)
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

// AppendString appends a text as JSON, which is YAML, too.
func AppendString(dst []byte, s string) []byte {
	b, _ := json.Marshal(s) // never fails for a string
	return append(dst, b...)
}

// Keys returns the keys of a struct, in order, and the fields that they set.
func Keys(t reflect.Type) (keys []string, fields map[string]int) {
	fields = map[string]int{}
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("yaml"); key != "" {
			keys = append(keys, key)
			fields[key] = i
		}
	}
	return keys, fields
}

// SetText sets a value from the text of a scalar, a flag or a variable.
func SetText(v reflect.Value, text string) error {
	if t, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return t.UnmarshalText([]byte(text))
	}
	if s, ok := v.Addr().Interface().(Short); ok {
		return s.SetShort(text)
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return SetText(v.Elem(), text)
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return Wrong("true, false", "%q is not a truth value", text)
		}
		v.SetBool(text == "true")
	case reflect.Int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return Wrong("such as 0 or 100", "%q is not a whole number", text)
		}
		v.SetInt(int64(n))
	default:
		panic("internal error: config type " + v.Type().String())
	}
	return nil
}

// wanted names the type of a value for a message.
func wanted(v reflect.Value) string {
	if k, ok := v.Addr().Interface().(Kind); ok {
		return k.Kind()
	}
	switch v.Kind() {
	case reflect.Bool:
		return "a truth value"
	case reflect.Int:
		return "a whole number"
	}
	return "text"
}
