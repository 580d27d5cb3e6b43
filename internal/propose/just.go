package propose

import (
	"slices"
	"strings"
)

var (
	recipeName = pattern(`^@?([A-Za-z_][A-Za-z0-9_-]*)(\s[^:=]*(?:=[^:]*)?)?:(?:[^=]|$)`)
	attribute  = pattern(`^\[(.*)\]\s*$`)
	docText    = pattern(`^doc\(['"](.*)['"]\)$`)
	paramName  = pattern(`^([+*]?)\$?([A-Za-z_][A-Za-z0-9_-]*)(=?)`)
)

// justfile proposes the recipes of a justfile, with their parameters.
func justfile(d dir) (file string, tools []Tool) {
	file, text := d.read("justfile", "Justfile", ".justfile")
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	all := scripts{}
	said, attributes := "", []string{}
	for n, line := range lines {
		if comment, ok := strings.CutPrefix(line, "#"); ok && !strings.HasPrefix(comment, "!") {
			said = comment
			continue
		}
		if a := attribute().FindStringSubmatch(line); a != nil {
			attributes = append(attributes, a[1])
			if doc := docText().FindStringSubmatch(a[1]); doc != nil {
				said = doc[1]
			}
			continue
		}
		comment, tags := said, attributes
		said, attributes = "", nil
		m := recipeName().FindStringSubmatch(line)
		if m == nil || slices.Contains([]string{"set", "alias", "export", "import", "mod"}, m[1]) {
			continue
		}
		var body []string
		for _, recipe := range lines[n+1:] {
			if !strings.HasPrefix(recipe, " ") && !strings.HasPrefix(recipe, "\t") {
				break
			}
			body = append(body, strings.TrimLeft(recipe, " \t@-"))
		}
		before, _, _ := strings.Cut(line[len(strings.TrimRight(m[0], " ")):], "#")
		all[m[1]] = "just " + strings.NewReplacer("&", " ", "(", " ", ")", " ").Replace(before) + "\n" +
			strings.Join(body, "\n")
		if slices.Contains(tags, "private") {
			continue
		}
		t := Tool{Name: toolName(m[1]), Command: []string{"just", m[1]}}
		if slices.ContainsFunc(tags, func(tag string) bool { return strings.HasPrefix(tag, "confirm") }) {
			t.Command, t.Confirm = []string{"just", "--yes", m[1]}, true
		}
		t, ok := judge(t, m[1], strings.Join(body, "\n"))
		if !ok {
			continue
		}
		t.Description = describe(comment, t.Command, body)
		for param := range strings.FieldsSeq(m[2]) {
			p := paramName().FindStringSubmatch(param)
			if p == nil { // the rest of a default value that contains a blank
				break
			}
			in := Input{p[2], one, p[3] == "" && p[1] != "*"}
			if p[1] != "" {
				in.Schema = "{type: array, items: {type: string}}"
			}
			t.Inputs = append(t.Inputs, in)
			t.Command = append(t.Command, "{{"+p[2]+"}}")
			if !in.Required || p[1] != "" { // further parameters are positional, and need this one
				break
			}
		}
		tools = append(tools, t)
	}
	all.confirm(tools)
	return file, tools
}
