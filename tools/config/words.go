package config

import (
	"regexp"
	"sync"

	"github.com/kballard/go-shellquote"
)

// Placeholder returns the regular expression for {{name}} in the text of a command. Only a plain name counts, so that double braces for other
// programs ({{.Names}} of docker, {{ "x" }}) stay as they are. It is compiled when first needed: that can take a tenth of a millisecond.
var Placeholder = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\{\{\s*([A-Za-z_][A-Za-z0-9_-]*)\s*\}\}`)
})

// SplitWords splits a line into words as sh does, but expands nothing: other characters with a meaning to sh (| > ; & $ *) are plain text. A
// placeholder is never split.
func SplitWords(line string) ([]string, error) {
	return shellquote.Split(Placeholder().ReplaceAllString(line, "{{$1}}"))
}
