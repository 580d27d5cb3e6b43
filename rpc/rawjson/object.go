package rawjson

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
)

// Member returns the value of an object's member as it is written, nil if there is none or if object is not
// an object.
func Member(object []byte, member string) []byte {
	for it := Over(object); it.object && it.Next(); {
		if string(it.Name) == member {
			return it.Value
		}
	}
	return nil
}

// StringMember returns the text of an object's member, "" if there is none or it is not a string.
func StringMember(object []byte, member string) string { return Unquote(Member(object, member)) }

// WithMember returns an object with a new value for a member, which moves to the end, or without the member
// if value is nil.
func WithMember(object []byte, member string, value any) json.RawMessage {
	changed := []byte{'{'}
	add := func(name, value []byte) {
		if len(changed) > 1 {
			changed = append(changed, ',')
		}
		changed = append(append(append(changed, name...), ':'), value...)
	}
	for it := Over(object); it.object && it.Next(); {
		if string(it.Name) != member {
			add(it.Quoted, it.Value)
		}
	}
	switch raw, ok := value.(json.RawMessage); {
	case value == nil:
	case ok && len(raw) > 0:
		add(Encode(member), raw)
	default:
		add(Encode(member), Encode(value))
	}
	return append(changed, '}')
}

// Merge returns an object with the members of another one. Of two objects with the same name the members are
// merged, of other values the second one stays.
func Merge(object, with json.RawMessage) json.RawMessage {
	for it := Over(with); it.Next(); {
		value := json.RawMessage(it.Value)
		if before := Member(object, string(it.Name)); IsObject(before) && IsObject(value) {
			value = Merge(before, value)
		}
		object = WithMember(object, string(it.Name), value)
	}
	return object
}

// Encode encodes a value as JSON. Use it only for values that can certainly be encoded: it panics otherwise.
func Encode(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic("internal error: encoding JSON: " + err.Error())
	}
	return b
}

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

// Rewrite returns a JSON value in which text has replaced strings, names of members, and numbers. name is the
// name of the member that the text belongs to, also inside an array; for a name it is the name itself. A
// value without changes is returned as it is.
func Rewrite(value json.RawMessage, text func(name, text string) string) json.RawMessage {
	var changed []byte // nil: nothing has changed
	copied, name := 0, ""
	for i := 0; i < len(value); {
		var n int
		switch c := value[i]; {
		case c == '"':
			n = stringLen(value[i:])
		case c == '-' || '0' <= c && c <= '9':
			n = numberLen(value[i:])
		default:
			i++
			continue
		}
		was := string(value[i : i+n])
		if value[i] == '"' {
			was = Unquote(value[i : i+n])
			if namesMember(value[i+n:]) {
				name = was
			}
		}
		if is := text(name, was); is != was {
			changed = append(append(changed, value[copied:i]...), Encode(is)...)
			copied = i + n
		}
		i += n
	}
	if changed == nil {
		return value
	}
	return append(changed, value[copied:]...)
}

// numberLen returns the length of the JSON number that b begins with.
func numberLen(b []byte) (n int) {
	for n < len(b) && (b[n] == '-' || b[n] == '+' || b[n] == '.' || b[n] == 'e' || b[n] == 'E' ||
		'0' <= b[n] && b[n] <= '9') {
		n++
	}
	return n
}

// namesMember reports whether a string is the name of a member, from what follows it.
func namesMember(rest []byte) bool {
	for _, c := range rest {
		switch c {
		case ' ', '\t', '\r', '\n':
		default:
			return c == ':'
		}
	}
	return false
}
