package command

import (
	"fmt"
	"slices"
	"strings"

	"runnel/tools/config"
	"runnel/tools/inputs"
)

// FromLine makes a command tool from NAME=COMMAND, the value of the flag --tool. The command is split into
// words as a shell would split it, but no shell runs. Each {{name}} is a required string argument.
func FromLine(spec string, env config.Base) (*Command, error) {
	name, line, ok := strings.Cut(spec, "=")
	if !ok {
		return nil, config.Wrong("NAME=COMMAND, such as 'search=grep -rn {{pattern}} .'",
			"%q is not a tool", spec)
	}
	words, err := config.SplitWords(line)
	if err != nil {
		return nil, fmt.Errorf("tool %q: %w", name, err)
	}
	for _, sign := range []string{"|", "||", "&&", "&", ">", ">>", "<", "2>&1"} {
		if slices.Contains(words, sign) && slices.Contains(strings.Fields(line), sign) { // without quotes
			return nil, config.Wrong("'"+name+`=sh -c "..."', or the sign in quotes`,
				"tool %q: no shell reads the command, and %s would be an argument", name, sign)
		}
	}
	var names []string
	for _, word := range words {
		for _, name := range inputs.ParseTemplate(word).Names {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	var properties []string
	for _, n := range names {
		properties = append(properties, `"`+n+`":{"type":"string"}`)
	}
	c, err := New(name, config.Command{
		Description: "Run " + commandLine(&config.Command{Command: words}),
		Command:     words,
		Input:       config.Object("{" + strings.Join(properties, ",") + "}"),
		Required:    names,
	}, env)
	if err != nil {
		return nil, fmt.Errorf("tool %q: %w", name, err)
	}
	return c, nil
}
