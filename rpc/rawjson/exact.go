package rawjson

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"
)

// Unmarshal is json.Unmarshal, but that a member of JSON is read into a field only if it has the name of the field's tag, letter
// by letter. The standard library takes "TASKID" for "taskId", too; who looks at messages on their way does not. All params of
// requests and notifications are read by it.
func Unmarshal(data []byte, to any) error {
	if json.Valid(data) {
		data = exact(data, reflect.TypeOf(to))
	}
	return json.Unmarshal(data, to) // which says what is wrong
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// exact is valid JSON without the members that would be read into fields of t by another name.
func exact(data []byte, t reflect.Type) []byte {
	data = SkipBlanks(data)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(unmarshaler) {
		return data
	}
	switch kind := t.Kind(); {
	case (kind == reflect.Struct || kind == reflect.Map) && data[0] == '{':
		changed := []byte{'{'}
		for it := MembersOf(data); it.Next(); {
			field, keep := fieldOf(t, string(it.Name))
			if !keep {
				continue
			}
			if len(changed) > 1 {
				changed = append(changed, ',')
			}
			changed = append(append(changed, it.Quoted...), ':')
			if field != nil {
				it.Value = exact(it.Value, field)
			}
			changed = append(changed, it.Value...)
		}
		return append(changed, '}')
	case kind == reflect.Slice && data[0] == '[':
		changed := []byte{'['}
		for it := ElementsOf(data); it.Next(); {
			if len(changed) > 1 {
				changed = append(changed, ',')
			}
			changed = append(changed, exact(it.Value, t.Elem())...)
		}
		return append(changed, ']')
	}
	return data
}

// fieldOf is the type that a member is read into, nil if it is read into none. One that would be read by another name is not kept.
func fieldOf(t reflect.Type, name string) (field reflect.Type, keep bool) {
	if t.Kind() == reflect.Map {
		return t.Elem(), true
	}
	fields := taggedFields(t)
	if fields[name] != nil {
		return fields[name], true
	}
	for other := range fields {
		if strings.EqualFold(other, name) {
			return nil, false
		}
	}
	return nil, true
}

var tagged sync.Map // from a struct's type to its taggedFields

// taggedFields are the types of a struct's fields, by the names of their tags.
func taggedFields(t reflect.Type) map[string]reflect.Type {
	if known, ok := tagged.Load(t); ok {
		return known.(map[string]reflect.Type)
	}
	fields := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" && f.IsExported() {
			fields[name] = f.Type
		}
	}
	tagged.Store(t, fields)
	return fields
}
