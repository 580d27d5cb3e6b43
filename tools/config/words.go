package config

import (
	"regexp"
	"sync"

	"github.com/kballard/go-shellquote"
)

// Placeholder finds {{name}} in the text of a command. Only a plain name makes one, so what other programs write in double braces
// ({{.Names}} of docker, {{ "x" }}) stays as it is. It is not a regular expression, since compiling one can take a tenth of a millisecond
// at each start.
var Placeholder = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\{\{\s*([A-Za-z_][A-Za-z0-9_-]*)\s*\}\}`)
})

// SplitWords splits a line into words as sh does. Nothing is expanded, and the characters that have a meaning to sh otherwise
// (| > ; & $ *) are text. A placeholder is never split.
func SplitWords(line string) ([]string, error) {
	return shellquote.Split(Placeholder().ReplaceAllString(line, "{{$1}}"))
}
