package propose

import (
	"strings"
)

var (
	ruleLine    = pattern(`^([A-Za-z0-9][A-Za-z0-9_ -]*?)\s*::?(?:[^=:]|$)`)
	trailingDoc = pattern(`##+\s*(.*)$`)
)

// makefile proposes the targets of a Makefile that have a description, are phony, or have a common name.
func makefile(d dir) (file string, tools []Tool) {
	file, text := d.read("GNUmakefile", "makefile", "Makefile")
	left := maxIncluded
	lines := strings.Split(strings.ReplaceAll(d.withIncluded(text, &left), "\\\n", " "), "\n")
	phony := map[string]bool{}
	for _, line := range lines {
		if targets, ok := strings.CutPrefix(line, ".PHONY"); ok {
			for target := range strings.FieldsSeq(strings.TrimLeft(targets, " :")) {
				phony[target] = true
			}
		}
	}
	seen, all := map[string]bool{}, scripts{}
	above := "" // the comment on the line above
	for n, line := range lines {
		if comment, ok := strings.CutPrefix(line, "#"); ok {
			above = comment
			continue
		}
		said := above
		if !strings.HasPrefix(line, ".PHONY") { // .PHONY often stands between a target and its comment
			above = ""
		}
		rule := ruleLine().FindStringSubmatch(line)
		if rule == nil {
			continue
		}
		if doc := trailingDoc().FindStringSubmatch(line); doc != nil {
			said = doc[1]
		}
		var body []string
		for _, recipe := range lines[n+1:] {
			if !strings.HasPrefix(recipe, "\t") {
				break
			}
			body = append(body, strings.TrimLeft(recipe, "\t @-+"))
		}
		_, before, _ := strings.Cut(line, ":")
		before, _, _ = strings.Cut(before, "#")
		for target := range strings.FieldsSeq(rule[1]) {
			all[target] += "make " + strings.ReplaceAll(strings.TrimLeft(before, ":"), "|", " ") + "\n" +
				strings.Join(body, "\n") + "\n"
			if seen[target] || !phony[target] && trailingDoc().FindString(line) == "" && !known(target) {
				continue
			}
			seen[target] = true
			t := Tool{Name: toolName(target), Command: []string{"make", target}}
			t, ok := judge(t, target, strings.Join(body, "\n"))
			if !ok {
				continue
			}
			t.Description = describe(said, t.Command, body)
			tools = append(tools, t)
		}
	}
	all.confirm(tools)
	return file, tools
}
