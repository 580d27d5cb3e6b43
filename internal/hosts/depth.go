package hosts

import (
	"bytes"
	"fmt"
)

// maxDepth is how many levels a file may have. The libraries for YAML and TOML refuse more in brackets, as
// encoding/json does; that for JSON with comments, and TOML's dotted names, would take the stack until the
// process ends.
const maxDepth = 10000

func errDepth(line int) error {
	return fmt.Errorf("line %d: it is nested more than %d levels deep", line, maxDepth)
}

// checkDepth returns an error if a text of JSON, which may have comments, is nested too deep. Whether it is
// JSON is for its parser to say.
func checkDepth(text []byte) error {
	depth, line := 0, 1
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '\n':
			line++
		case '{', '[':
			if depth++; depth > maxDepth {
				return errDepth(line)
			}
		case '}', ']':
			depth--
		case '"':
			for i++; i < len(text) && text[i] != '"' && text[i] != '\n'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '/':
			i = skipComment(text, i)
		}
	}
	return nil
}

// skipComment returns the last position of the comment at i, i itself if there is none.
func skipComment(text []byte, i int) int {
	var length int
	switch rest := text[i:]; {
	case bytes.HasPrefix(rest, []byte("//")):
		length = bytes.IndexByte(rest, '\n')
	case bytes.HasPrefix(rest, []byte("/*")):
		if length = bytes.Index(rest[2:], []byte("*/")); length >= 0 {
			length += 2 + len("*/")
		}
	default:
		return i
	}
	if length < 0 {
		return len(text)
	}
	return i + length - 1
}

// deeper reports whether a value has more than so many levels.
func deeper(value any, levels int) bool {
	if levels < 0 {
		return true
	}
	switch v := value.(type) {
	case map[string]any:
		for _, v := range v {
			if deeper(v, levels-1) {
				return true
			}
		}
	case []any:
		for _, v := range v {
			if deeper(v, levels-1) {
				return true
			}
		}
	}
	return false
}
