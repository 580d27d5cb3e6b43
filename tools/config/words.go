package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kballard/go-shellquote"
)

// Placeholder returns the regular expression for {{name}} in the text of a command. Only a plain name counts,
// so that double braces for other programs ({{.Names}} of docker, {{ "x" }}) stay as they are. It is compiled
// when first needed: that can take a tenth of a millisecond.
var Placeholder = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\{\{\s*([A-Za-z_][A-Za-z0-9_-]*)\s*\}\}`)
})

// SplitWords splits a line into words as sh does, but expands nothing: other characters with a meaning to sh
// (| > ; & $ *) are plain text. A placeholder is never split.
func SplitWords(line string) ([]string, error) {
	return shellquote.Split(Placeholder().ReplaceAllString(line, "{{$1}}"))
}

// Spaced returns a warning about words that look like placeholders with a blank in the name, "" if there are
// none. They are passed on unchanged, since they may be meant for another program.
func (c *Config) Spaced() string {
	spaced := regexp.MustCompile(`\{\{\s*[A-Za-z_][\w-]*(\s+[A-Za-z_][\w-]*)+\s*\}\}`)
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		for n, word := range c.Tools[name].Command {
			if found := spaced.FindString(word); found != "" {
				lines = append(lines, c.Locate(Join("tools", name), &Error{Key: fmt.Sprintf("command[%d]", n),
					Problem: fmt.Sprintf("%q goes to the command as it is", found),
					Allowed: "a placeholder's name has letters, digits, _ and -"}).Error())
			}
		}
	}
	return strings.Join(lines, "\n")
}
