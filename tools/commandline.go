package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"runnel/tools/text"
	"slices"
	"strings"
)

// NewCommandLine makes a command tool from NAME=COMMAND, the value of the flag --tool. The command is
// split into words as a shell splits them, but no shell runs; each {{name}} is a required string argument.
func NewCommandLine(spec string, env Environment) (*Command, error) {
	name, line, ok := strings.Cut(spec, "=")
	if !ok {
		return nil, fmt.Errorf("%q is no tool; allowed: NAME=COMMAND, such as 'search=grep -rn {{pattern}} .'", spec)
	}
	words, err := splitWords(line)
	if err != nil {
		return nil, fmt.Errorf("tool %q: %w", name, err)
	}
	var names []string
	for _, word := range words {
		for _, name := range parseTemplate(word).names {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	var properties strings.Builder
	for i, n := range names {
		if i > 0 {
			properties.WriteByte(',')
		}
		key, _ := json.Marshal(n)
		properties.Write(key)
		properties.WriteString(`:{"type":"string"}`)
	}
	c, err := NewCommand(name, CommandConfig{
		Description: "Run " + line,
		Command:     words,
		Input:       Object("{" + properties.String() + "}"),
		Required:    names,
	}, env)
	if err != nil {
		return nil, fmt.Errorf("tool %q: %w", name, err)
	}
	return c, nil
}

// splitWords splits a line into words as sh does (POSIX shell, 2.2 Quoting): single quotes keep all,
// double quotes and a bare backslash what sh lets them keep. Nothing is expanded, and the characters
// that have a meaning to sh otherwise (| > ; & $ *) are text. A placeholder is never split.
func splitWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord := false
	for i := 0; i < len(line); i++ {
		rest := line[i:]
		if at := placeholder().FindStringIndex(rest); at != nil && at[0] == 0 {
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

// maxCommandLine is how much of a command line describes its tool, in bytes.
const maxCommandLine = 500

// commandLine is the command as a shell reads it, or the script: what describes a tool whose config does not.
func (f *CommandConfig) commandLine() string {
	line := strings.TrimSpace(f.Shell)
	if line == "" {
		words := make([]string, len(f.Command))
		for i, word := range f.Command {
			if words[i] = word; word == "" || strings.ContainsAny(word, " \t\n'\"\\$`|&;<>()*?#~") {
				words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
			}
		}
		line = strings.Join(words, " ")
	}
	if short := text.Clip(line, maxCommandLine); len(short) < len(line) {
		return short + "..."
	}
	return line
}
