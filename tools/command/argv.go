package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"runnel/internal/shorten"
	"runnel/tools/config"
)

// template is a text with placeholders, such as an element of an argv or a command's stdin. The values never
// pass through a shell, so each stays plain text.
type template struct {
	text    string
	names   []string // of its placeholders
	options bool     // false = what a caller sends must not make the word an option
}

func parseTemplate(s string) template {
	t := template{text: s}
	if strings.Contains(s, "{{") {
		for _, m := range config.Placeholder().FindAllStringSubmatch(s, -1) {
			t.names = append(t.names, m[1])
		}
	}
	return t
}

func (t *template) fill(value func(name string) string) string {
	if len(t.names) == 0 {
		return t.text
	}
	return config.Placeholder().ReplaceAllStringFunc(t.text,
		func(placeholder string) string { return value(strings.Trim(placeholder, "{} \t\n\f\r")) })
}

// between returns the text with a blank in place of each placeholder.
func (t *template) between() string { return config.Placeholder().ReplaceAllString(t.text, " ") }

// argument is the value of one argument as a command gets it: a list for an array, otherwise one string.
type argument struct {
	values []string
	list   bool
}

// joined returns the argument as one string, with one element of an array per line.
func (a argument) joined() string { return strings.Join(a.values, "\n") }

// arguments holds the arguments that have a value, by name. null and the empty array have none.
type arguments map[string]argument

// parseArguments reads a call's arguments and fills in defaults. It ignores arguments that the tool's input
// does not declare.
func (in *inputs) parseArguments(raw json.RawMessage) (arguments, error) {
	given := map[string]json.RawMessage{}
	if len(bytes.TrimSpace(raw)) > 0 {
		if err := json.Unmarshal(raw, &given); err != nil {
			return nil, fmt.Errorf("reading the arguments: %w", err)
		}
	}
	args := arguments{}
	for _, name := range in.names {
		v, ok := given[name]
		if !ok {
			if v, ok = in.defaults[name]; !ok {
				continue
			}
		}
		a, err := spell(v)
		if err != nil {
			return nil, fmt.Errorf("argument %q: %w", name, err)
		}
		for _, s := range a.values {
			if strings.IndexByte(s, 0) >= 0 {
				return nil, fmt.Errorf("argument %q holds a NUL character, which no command can take", name)
			}
		}
		if len(a.values) > 0 {
			args[name] = a
		}
	}
	return args, nil
}

// spell converts a JSON value to what a command reads: text as it is, a number as it was written, true or
// false, an object as JSON. null has no value.
func spell(v json.RawMessage) (a argument, err error) {
	// Starts empty: json.Unmarshal would write into the bytes of an element that is there, and v may be a
	// default.
	var items []json.RawMessage
	if a.list = bytes.HasPrefix(v, []byte("[")); !a.list {
		items = []json.RawMessage{v}
	} else if err := json.Unmarshal(v, &items); err != nil {
		return a, err
	}
	for _, item := range items {
		var text string
		var compact bytes.Buffer
		if err := json.Compact(&compact, item); err != nil {
			return a, err
		}
		switch text = compact.String(); text[0] {
		case 'n':
			continue
		case '"':
			if err := json.Unmarshal(item, &text); err != nil {
				return a, err
			}
		}
		a.values = append(a.values, text)
	}
	return a, nil
}

// expand fills the elements of an argv. An element whose placeholder has no value is left out. An element
// with an array becomes one element per item, with the text around the placeholder repeated (-I{{dir}}
// becomes -Ia -Ib).
func (in *inputs) expand(elements []template, args arguments) ([]string, error) {
	var argv []string
next:
	for i := range elements {
		t := &elements[i]
		list := ""
		for _, name := range t.names {
			a, ok := args[name]
			if !ok {
				continue next
			}
			if a.list && list != "" && list != name {
				return nil, fmt.Errorf("arguments %q and %q are both arrays, and the command has them in one element", list, name)
			}
			if a.list {
				list = name
			}
		}
		n := 1
		if list != "" {
			n = len(args[list].values)
		}
		for item := range n {
			value := func(name string) string {
				if name == list {
					return args[name].values[item]
				}
				return args[name].values[0]
			}
			word := t.fill(value)
			if err := in.checkOption(t, word, value); err != nil {
				return nil, err
			}
			argv = append(argv, word)
		}
	}
	return argv, nil
}

// checkOption refuses a word that a caller has made an option, since options of ssh, git, tar, find and many
// others run commands. What the config says itself is its author's: a default, the options of a word that
// begins as the config has it, what follows "--".
func (in *inputs) checkOption(t *template, word string, value func(name string) string) error {
	if t.options || len(word) < 2 || word[0] != '-' {
		return nil
	}
	for _, name := range t.names {
		defaults, _ := spell(in.defaults[name])
		if !in.options[name] && !slices.Contains(defaults.values, value(name)) {
			return fmt.Errorf(`argument %q: %s begins with "-", so that the command would read it as an option. Give another value. If options are wanted here, the tool's config can allow them (options: [%s])`,
				name, strconv.Quote(shorten.Cut(word, maxShown)), name)
		}
	}
	return nil
}

// unclosed matches the beginning of a placeholder without its end.
var unclosed = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\{\{\s*([A-Za-z_][A-Za-z0-9_-]*)\s*(\}?)`)
})

// template parses the value of a config key. It refuses placeholders that no input declares or that are not
// closed.
func (in *inputs) template(key, text string) (*template, error) {
	t := parseTemplate(text)
	if strings.Contains(text, "{{") {
		for _, m := range unclosed().FindAllStringSubmatch(t.between(), -1) {
			// A text that names no argument may be meant for another program.
			if m[2] != "" || slices.Contains(in.names, m[1]) {
				return nil, &config.Error{Key: key, Problem: fmt.Sprintf("%q is not closed", m[0]),
					Allowed: "{{" + m[1] + "}}"}
			}
		}
	}
	var lists []string
	for _, name := range t.names {
		in.used[name] = true
		if !slices.Contains(in.names, name) {
			return nil, &config.Error{Key: key,
				Problem: fmt.Sprintf("placeholder {{%s}} names no input", name), Allowed: in.allowed()}
		}
		if in.arrays[name] && !slices.Contains(lists, name) {
			lists = append(lists, name)
		}
	}
	if len(lists) > 1 {
		return nil, &config.Error{Key: key,
			Problem: fmt.Sprintf("{{%s}} and {{%s}} are both arrays", lists[0], lists[1]),
			Allowed: "one array in an element"}
	}
	return &t, nil
}
