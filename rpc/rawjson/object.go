package rawjson

import "encoding/json"

// Member is the value of an object's member as it is written; nil if there is none, or if object is not one.
func Member(object []byte, member string) []byte {
	for it := Over(object); it.object && it.Next(); {
		if string(it.Name) == member {
			return it.Value
		}
	}
	return nil
}

// StringMember is the text of an object's member that is a string, "" if there is none.
func StringMember(object []byte, member string) string { return Unquote(Member(object, member)) }

// WithMember is an object with another value for a member, or without the member if value is nil.
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
	if value != nil {
		add(Encode(member), Encode(value))
	}
	return append(changed, '}')
}

// Encode writes as JSON what certainly can be.
func Encode(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic("internal error: encoding JSON: " + err.Error())
	}
	return b
}
