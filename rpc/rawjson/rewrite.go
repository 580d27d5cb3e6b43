package rawjson

import "encoding/json"

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
