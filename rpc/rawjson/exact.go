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
	case kind == reflect.Struct && data[0] == '{':
		fields := taggedFields(t)
		return eachExact(data, func(name string) (reflect.Type, bool) {
			if field, ok := fields[name]; ok {
				return field, true
			}
			for other := range fields {
				if strings.EqualFold(other, name) {
					return nil, false
				}
			}
			return nil, true
		})
	case kind == reflect.Map && data[0] == '{':
		return eachExact(data, func(string) (reflect.Type, bool) { return t.Elem(), true })
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

// eachExact is exact for an object, of whose members read tells the type, nil if it does not matter, and whether to keep them.
func eachExact(object []byte, read func(name string) (t reflect.Type, keep bool)) []byte {
	changed := []byte{'{'}
	for it := MembersOf(object); it.Next(); {
		t, keep := read(string(it.Name))
		if !keep {
			continue
		}
		if len(changed) > 1 {
			changed = append(changed, ',')
		}
		changed = append(append(changed, it.Quoted...), ':')
		if t == nil {
			changed = append(changed, it.Value...)
		} else {
			changed = append(changed, exact(it.Value, t)...)
		}
	}
	return append(changed, '}')
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
