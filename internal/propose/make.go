package propose

import (
	"strings"
)

var (
	ruleLine    = pattern(`^([A-Za-z0-9][A-Za-z0-9_ -]*?)\s*::?(?:[^=:]|$)`)
	trailingDoc = pattern(`##+\s*(.*)$`)
)

// makefile proposes the targets of a Makefile that have a description, are phony, or have a name that projects share.
func makefile(d dir) (file string, tools []Tool) {
	file, text := d.read("GNUmakefile", "makefile", "Makefile")
	lines := strings.Split(strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\\\n", " "), "\n")
	phony := map[string]bool{}
	for _, line := range lines {
		if targets, ok := strings.CutPrefix(line, ".PHONY"); ok {
			for target := range strings.FieldsSeq(strings.TrimLeft(targets, " :")) {
				phony[target] = true
			}
		}
	}
	seen := map[string]bool{}
	above := "" // the comment in the line above
	for n, line := range lines {
		if comment, ok := strings.CutPrefix(line, "#"); ok {
			above = comment
			continue
		}
		said := above
		if !strings.HasPrefix(line, ".PHONY") { // which often stands between a target and its comment
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
		for target := range strings.FieldsSeq(rule[1]) {
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
	return file, tools
}
