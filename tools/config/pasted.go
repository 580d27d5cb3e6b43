package config

import (
	"encoding/json"
	"slices"
	"strings"

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
