package config

import (
	"errors"
	"regexp"
	"strings"
	"sync"
)

// Placeholder finds {{name}} in the text of a command. Only a plain name makes one, so what other programs write in double
// braces ({{.Names}} of docker, {{ "x" }}) stays as it is. No regular expression is compiled at each start: with
// what it takes of the stack, one can be a tenth of a millisecond.
var Placeholder = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\{\{\s*([A-Za-z_][A-Za-z0-9_-]*)\s*\}\}`)
})

// SplitWords splits a line into words as sh does (POSIX shell, 2.2 Quoting): single quotes keep all,
// double quotes and a bare backslash what sh lets them keep. Nothing is expanded, and the characters
// that have a meaning to sh otherwise (| > ; & $ *) are text. A placeholder is never split.
func SplitWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord := false
	for i := 0; i < len(line); i++ {
		rest := line[i:]
		if at := Placeholder().FindStringIndex(rest); at != nil && at[0] == 0 {
			word.WriteString(rest[:at[1]])
			inWord = true
			i += at[1] - 1
			continue
		}
		switch c := line[i]; c {
		case ' ', '\t', '\n', '\r':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
			continue
		case '\'':
			end := strings.IndexByte(rest[1:], '\'')
			if end < 0 {
				return nil, errors.New("a single quote is not closed")
			}
			word.WriteString(rest[1 : 1+end])
			i += end + 1
		case '"':
			n, err := doubleQuoted(&word, rest[1:])
			if err != nil {
				return nil, err
			}
			i += n
		case '\\':
			if i++; i == len(line) {
				return nil, errors.New("a backslash stands at the end")
			}
			word.WriteByte(line[i])
		default:
			word.WriteByte(c)
		}
		inWord = true
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

// doubleQuoted appends what stands before the closing quote of s and returns how long that was, quote included.
func doubleQuoted(word *strings.Builder, s string) (int, error) {
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return i + 1, nil
		case s[i] == '\\' && i+1 < len(s) && strings.IndexByte("\"\\$`", s[i+1]) >= 0:
			i++
		}
		word.WriteByte(s[i])
	}
	return 0, errors.New("a double quote is not closed")
}
