package rawjson

import "encoding/json"

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
