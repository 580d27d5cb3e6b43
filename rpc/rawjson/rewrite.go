package rawjson

import "encoding/json"

// Rewrite is a JSON value with other texts in the place of its strings, of its names, and of its numbers: text returns what is to stand there.
// name is the name of the member that a value belongs to, the last one before an array; of a name it is the name itself. A value with no
// changes is returned as it is.
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

// numberLen is the length of the JSON number that b begins with.
func numberLen(b []byte) (n int) {
	for n < len(b) && (b[n] == '-' || b[n] == '+' || b[n] == '.' || b[n] == 'e' || b[n] == 'E' || '0' <= b[n] && b[n] <= '9') {
		n++
	}
	return n
}

// namesMember reports whether a string is the name of a member, by what follows it.
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
