package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kballard/go-shellquote"

	"runnel/internal/shorten"
	"runnel/tools/config/strict"
	"runnel/tools/text"
)

// synonyms are the names that other programs' configs have for keys of runnel's.
var synonyms = map[string]string{
	"cwd": "dir", "workdir": "dir", "workingDirectory": "dir", "working_directory": "dir",
	"cmd": "command", "exec": "command", "run": "shell", "script": "shell",
	"environment": "env", "inputs": "input", "parameters": "input", "inputSchema": "input", "tty": "pty",
}

// instead returns a hint at what to write instead of an unknown key. For keys from other programs' configs,
// it names runnel's key.
func instead(path, key string, words map[string][]string, keys []string) (hint string) {
	near := text.Nearest(key, keys)
	switch {
	case path == "" && (key == "mcpServers" || key == "servers"): // Claude, Cursor and most others; VS Code
		return "servers belong under upstreams, each with its program and arguments in one list: " +
			"upstreams: {NAME: {command: [PROGRAM, ARGUMENT]}}"
	case key == "args" && (strings.HasPrefix(path, "tools.") || strings.HasPrefix(path, "upstreams.")):
		return "the arguments follow the program in one list: command: " +
			wordList(append(words["command"], words["args"]...))
	case slices.Contains(keys, synonyms[key]):
		return "did you mean " + synonyms[key] + "?"
	case len(near) > 0:
		return "did you mean " + strings.Join(near, " or ") + "?"
	}
	return strict.Allow(strings.Join(keys, ", "))
}

// list returns the list to write in the place of a text.
func list(path, text string) string {
	switch {
	case !strings.HasSuffix(path, ".command"):
		return wordList([]string{text})
	case strings.HasPrefix(path, "tools."):
		return wordsOf(text) + ", or the key shell, if a shell is to read it"
	}
	return wordsOf(text)
}

// Rewrite returns the mapping to write in the place of a command.
func (*Command) Rewrite(line string) string { return "{command: " + wordsOf(line) + "}" }

// wordsOf returns a line as the YAML list of the words into which a shell would split it.
func wordsOf(line string) string {
	words, err := SplitWords(line)
	if err != nil { // a quote is not closed
		words = strings.Fields(line)
	}
	return wordList(words)
}

// wordList returns words as a YAML list in brackets.
func wordList(words []string) string {
	list, _ := json.Marshal(words) // never fails for strings
	return shorten.Clip(strings.ReplaceAll(string(list), `","`, `", "`), maxWords)
}

// maxWords is the longest list that a message shows, in bytes.
const maxWords = 200

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
