package command

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"runnel/internal/shorten"
	"runnel/tools/inputs"
)

// word is an element of an argv, with placeholders.
type word struct {
	inputs.Template
	options bool // false = what a caller sends must not make it an option
}

// arguments reads a call's arguments, and refuses what no program can take.
func (c *Command) arguments(raw json.RawMessage) (inputs.Arguments, error) {
	args, err := c.in.Arguments(raw)
	for _, name := range c.in.Names {
		if slices.ContainsFunc(args[name].Values, func(s string) bool { return strings.IndexByte(s, 0) >= 0 }) {
			return nil, fmt.Errorf("argument %q holds a NUL character, which no command can take", name)
		}
	}
	return args, err
}

// expand fills the elements of an argv. An element whose placeholder has no value is left out. An element
// with an array becomes one element per item, with the text around the placeholder repeated (-I{{dir}}
// becomes -Ia -Ib).
func expand(in *inputs.Inputs, elements []word, args inputs.Arguments) ([]string, error) {
	var argv []string
next:
	for i := range elements {
		t := &elements[i]
		list := ""
		for _, name := range t.Names {
			a, ok := args[name]
			if !ok {
				continue next
			}
			if a.List && list != "" && list != name {
				return nil, fmt.Errorf("arguments %q and %q are both arrays, and the command has them in "+
					"one element", list, name)
			}
			if a.List {
				list = name
			}
		}
		n := 1
		if list != "" {
			n = len(args[list].Values)
		}
		for item := range n {
			value := func(name string) string {
				if name == list {
					return args[name].Values[item]
				}
				return args[name].Values[0]
			}
			filled := t.Fill(value)
			if err := checkOption(in, t, filled, value); err != nil {
				return nil, err
			}
			argv = append(argv, filled)
		}
	}
	return argv, nil
}

// maxWord is how much of a word an error shows, in bytes.
const maxWord = 200

// checkOption refuses a word that a caller has made an option, since options of ssh, git, tar, find and many
// others run commands. What the config says itself is its author's: a default, the options of a word that
// begins as the config has it, what follows "--".
func checkOption(in *inputs.Inputs, t *word, filled string, value func(name string) string) error {
	if t.options || len(filled) < 2 || filled[0] != '-' {
		return nil
	}
	for _, name := range t.Names {
		defaults, _ := inputs.Spell(in.Defaults[name])
		if !in.Options[name] && !slices.Contains(defaults.Values, value(name)) {
			return fmt.Errorf(`argument %q: %s begins with "-", so that the command would read it as an option. Give another value. If options are wanted here, the tool's config can allow them (options: [%s])`,
				name, strconv.Quote(shorten.Cut(filled, maxWord)), name)
		}
	}
	return nil
}
