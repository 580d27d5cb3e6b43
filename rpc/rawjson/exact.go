package rawjson

import (
	"encoding/json"
	"reflect"
	"strings"
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
	data = skipBlanks(data)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	kind := t.Kind()
	object, array := IsObject(data) && (kind == reflect.Struct || kind == reflect.Map), IsArray(data) && kind == reflect.Slice
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

// fieldOf is the type that a member is read into, nil if it is read into none. One that would be read by another name is not kept.
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
