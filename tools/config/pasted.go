package config

import (
	"encoding/json"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Habits from other programs' configs get a message that says the same in runnel's words.

// pasted is what to write instead of an unknown key among its siblings, "" if nothing is known about it.
func pasted(path, key string, value *yaml.Node, siblings []mapEntry) string {
	switch {
	case path == "" && (key == "mcpServers" || key == "servers"): // Claude, Cursor and most others; VS Code
		example := `NAME: {command: [PROGRAM, ARGUMENT]}`
		if value.Kind == yaml.MappingNode && len(value.Content) > 1 && value.Content[1].Kind == yaml.MappingNode {
			example = value.Content[0].Value + ": {command: " + commandOf(value.Content[1]) + "}"
		}
		return "here the servers stand under upstreams, each with its program and its arguments in one list: upstreams: {" + example + "}"
	case key == "args" && (strings.HasPrefix(path, "tools.") || strings.HasPrefix(path, "upstreams.")):
		server := &yaml.Node{Kind: yaml.MappingNode}
		for _, e := range siblings {
			server.Content = append(server.Content, e.key, e.value)
		}
		return "the arguments stand behind the program: command: " + commandOf(server)
	}
	return ""
}

// commandOf is the list of the program and the arguments of a server as most hosts write it.
func commandOf(server *yaml.Node) string {
	var program, arguments []string
	for pair := range slices.Chunk(server.Content, 2) {
		var words []string
		if pair[1].Kind == yaml.ScalarNode {
			words = []string{pair[1].Value}
		}
		for _, n := range pair[1].Content {
			words = append(words, n.Value)
		}
		switch pair[0].Value {
		case "command":
			program = words
		case "args":
			arguments = words
		}
	}
	return wordList(append(program, arguments...))
}

// wordsOf is text as the list of words that a shell would make of it.
func wordsOf(text string) string {
	words, err := SplitWords(text)
	if err != nil { // a quote is not closed
		words = strings.Fields(text)
	}
	return wordList(words)
}

// maxWords is how many words of a list a message shows.
const maxWords = 20

// wordList is a YAML list of words in brackets.
func wordList(words []string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_/.+-="
	var list []string
	for _, w := range words[:min(len(words), maxWords)] {
		if w == "" || strings.Trim(w, plain) != "" || w == "-" {
			quoted, _ := json.Marshal(w)
			w = string(quoted)
		}
		list = append(list, w)
	}
	if len(words) > maxWords {
		list = append(list, "...")
	}
	return "[" + strings.Join(list, ", ") + "]"
}
