package rawjson

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
)

// Unmarshal is json.Unmarshal, except that a member is read into a field only if its name is exactly that of
// the field's tag. The standard library also takes "TASKID" for "taskId", which a filter between client and
// server would not notice.
func Unmarshal(data []byte, to any) error {
	if json.Valid(data) {
		data = exact(data, reflect.TypeOf(to))
	}
	return json.Unmarshal(data, to)
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// exact returns valid JSON without the members that would be read into a field of t under another name.
func exact(data []byte, t reflect.Type) []byte {
	data = skipBlanks(data)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	kind := t.Kind()
	object, array := IsObject(data) && (kind == reflect.Struct || kind == reflect.Map), IsArray(data) &&
		kind == reflect.Slice
	if !object && !array || reflect.PointerTo(t).Implements(unmarshaler) {
		return data
	}
	var fields []reflect.StructField
	if kind == reflect.Struct {
		fields = reflect.VisibleFields(t)
	}
	changed := []byte{data[0]}
	for it := Over(data); it.Next(); {
		to, keep := fieldOf(fields, string(it.Name))
		if kind != reflect.Struct {
			to = t.Elem()
		} else if !keep {
			continue
		}
		if len(changed) > 1 {
			changed = append(changed, ',')
		}
		if object {
			changed = append(append(changed, it.Quoted...), ':')
		}
		if to != nil {
			it.Value = exact(it.Value, to)
		}
		changed = append(changed, it.Value...)
	}
	return append(changed, data[0]+2) // in ASCII, the end of either
}

// fieldOf returns the type of the field that a member is read into, nil if there is none. A member that would
// be read under another name is not kept.
func fieldOf(fields []reflect.StructField, name string) (to reflect.Type, keep bool) {
	keep = true
	for _, f := range fields {
		switch tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); {
		case tag == "" || !f.IsExported():
		case tag == name:
			return f.Type, true
		case strings.EqualFold(tag, name):
			keep = false
		}
	}
	return nil, keep
}

// Same reports whether two texts are the same JSON value, however they are written: arguments from a page
// have passed through its host.
func Same(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
