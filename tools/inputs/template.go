package inputs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"runnel/tools/config"
)

// Template is a text with placeholders, such as an element of an argv or a command's stdin. The values never
// pass through a shell, so each stays plain text.
type Template struct {
	Text  string
	Names []string // of its placeholders

	pattern *regexp.Regexp // of the placeholders; nil = config.Placeholder
}

// ParseTemplate finds the placeholders of a text, whatever they name.
func ParseTemplate(s string) Template {
	t := Template{Text: s}
	if strings.Contains(s, "{{") {
		for _, m := range config.Placeholder().FindAllStringSubmatch(s, -1) {
			t.Names = append(t.Names, m[1])
		}
	}
	return t
}

// ParseStep is ParseTemplate for a text of steps, where a name may have dots: {{steps.build.output}}.
func ParseStep(s string) Template {
	t := Template{Text: s, pattern: config.StepPlaceholder()}
	for _, m := range t.pattern.FindAllStringSubmatch(s, -1) {
		t.Names = append(t.Names, m[1])
	}
	return t
}

// Fill returns the text with a value in place of each placeholder.
func (t *Template) Fill(value func(name string) string) string {
	if len(t.Names) == 0 {
		return t.Text
	}
	pattern := t.pattern
	if pattern == nil {
		pattern = config.Placeholder()
	}
	return pattern.ReplaceAllStringFunc(t.Text,
		func(placeholder string) string { return value(strings.Trim(placeholder, "{} \t\n\f\r")) })
}

// between returns the text with a blank in place of each placeholder.
func (t *Template) between() string { return config.Placeholder().ReplaceAllString(t.Text, " ") }

// unclosed matches the beginning of a placeholder without its end.
var unclosed = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\{\{\s*([A-Za-z_][A-Za-z0-9_-]*)\s*(\}?)`)
})

// Template parses the value of a config key. It refuses placeholders that no input declares or that are not
// closed.
func (in *Inputs) Template(key, text string) (*Template, error) {
	t := ParseTemplate(text)
	if strings.Contains(text, "{{") {
		for _, m := range unclosed().FindAllStringSubmatch(t.between(), -1) {
			// A text that names no argument may be meant for another program.
			if m[2] != "" || slices.Contains(in.Names, m[1]) {
				return nil, &config.Error{Key: key, Problem: fmt.Sprintf("%q is not closed", m[0]),
					Allowed: "{{" + m[1] + "}}"}
			}
		}
	}
	var lists []string
	for _, name := range t.Names {
		in.Used[name] = true
		if !slices.Contains(in.Names, name) {
			allowed := in.Allowed()
			if len(in.Names) == 0 {
				allowed = fmt.Sprintf("none yet: declare it with input: {%s: {type: string}}", name)
			}
			return nil, &config.Error{Key: key,
				Problem: fmt.Sprintf("placeholder {{%s}} names no input", name), Allowed: allowed}
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
