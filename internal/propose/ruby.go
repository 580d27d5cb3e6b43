package propose

import "strings"

var (
	rakeDesc  = pattern(`^(\s*)desc\s+["'](.*?)["']\s*$`)
	rakeTask  = pattern(`^(\s*)(?:[\w:]*Task\.new|task)[\s(]+:?["']?([A-Za-z_][\w:-]*?)["']?(?:(?:\s*=>|:)\s*(.*)|[\s,)]+.*)?$`)
	namespace = pattern(`^(\s*)namespace[\s(]+:?["']?([A-Za-z_]\w*)["']?\)?\s+do`)
	rakeShell = pattern(`\b(?:sh|system)[\s(]+["'](.*)["']`)
)

// rake proposes the tasks of a Rakefile that have a description, as rake -T lists them.
func rake(d dir) (file string, tools []Tool) {
	file, text := d.read("Rakefile", "rakefile", "Rakefile.rb")
	run := []string{"rake"}
	if d.has("Gemfile") {
		run = []string{"bundle", "exec", "rake"}
	}
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	all := scripts{}
	var spaces [][2]string // the namespaces around a line: indent, name
	said := ""
	for n, line := range lines {
		for len(spaces) > 0 && strings.TrimRight(line, " ") == spaces[len(spaces)-1][0]+"end" {
			spaces = spaces[:len(spaces)-1]
		}
		if m := namespace().FindStringSubmatch(line); m != nil {
			spaces = append(spaces, [2]string{m[1], m[2]})
		}
		if m := rakeDesc().FindStringSubmatch(line); m != nil {
			said = m[2]
			continue
		}
		m := rakeTask().FindStringSubmatch(line)
		if m == nil {
			continue
		}
		name, body := m[2], []string{}
		for n := len(spaces) - 1; n >= 0; n-- {
			name = spaces[n][1] + ":" + name
		}
		for _, inner := range lines[n+1:] {
			if strings.TrimSpace(inner) != "" && !strings.HasPrefix(inner, m[1]+" ") {
				break
			}
			for _, shell := range rakeShell().FindAllStringSubmatch(inner, -1) {
				body = append(body, shell[1])
			}
		}
		all[name] = "task " + strings.Map(func(r rune) rune {
			if strings.ContainsRune("[]%iw,'\"(){}", r) {
				return ' '
			}
			return r
		}, strings.ReplaceAll(m[3], " :", " ")) + "\n" + strings.Join(body, "\n")
		says := said
		said = ""
		if says == "" {
			continue
		}
		t, ok := judge(Tool{Name: toolName(name), Command: append(append([]string{}, run...), name)}, name,
			strings.Join(body, "\n"))
		if !ok {
			continue
		}
		t.Description = describe(says, t.Command, body)
		tools = append(tools, t)
	}
	all.confirm(tools)
	return file, tools
}

var mixAlias = pattern(`^\s+["']?([a-z][\w.]*)["']?:\s*\[(.*)\],?\s*$`)

// mix proposes the usual tools for an Elixir project, and its aliases.
func mix(d dir) (file string, tools []Tool) {
	file, text := d.read("mix.exs")
	if file == "" {
		return "", nil
	}
	tools = []Tool{
		{Name: "test", Description: "Run the tests, all or some",
			Command: []string{"mix", "test", "{{paths}}"}, Inputs: []Input{{"paths", operands, false}},
			Timeout: "30m"},
		{Name: "compile", Description: "Compile the project", Command: []string{"mix", "compile"},
			Timeout: "30m"},
		{Name: "format_check", Description: "List files that are not formatted",
			Command: []string{"mix", "format", "--check-formatted"}, Timeout: "10m", ReadOnly: true},
		{Name: "deps_get", Description: "Fetch the dependencies", Command: []string{"mix", "deps.get"},
			Timeout: "30m"},
	}
	if strings.Contains(text, ":credo") {
		tools = append(tools, Tool{Name: "lint", Description: "Look for mistakes in Elixir code with Credo",
			Command: []string{"mix", "credo"}, Timeout: "10m", ReadOnly: true})
	}
	if strings.Contains(text, ":dialyxir") {
		tools = append(tools, Tool{Name: "dialyzer", Description: "Check types with Dialyzer",
			Command: []string{"mix", "dialyzer"}, Timeout: "1h"})
	}
	_, aliases, _ := strings.Cut(text, "defp aliases do")
	aliases, _, _ = strings.Cut(aliases, "\n  end")
	for line := range strings.SplitSeq(aliases, "\n") {
		m := mixAlias().FindStringSubmatch(line)
		if m == nil || m[1] == "test" { // mix test runs it
			continue
		}
		t, ok := judge(Tool{Name: toolName(m[1]), Command: []string{"mix", m[1]}}, m[1], m[2])
		if !ok {
			continue
		}
		t.Confirm = t.Confirm || strings.Contains(m[2], "ecto.drop") || strings.Contains(m[2], "ecto.reset")
		t.Description = describe("", t.Command, []string{strings.ReplaceAll(m[2], `"`, "")})
		tools = append(tools, t)
	}
	return file, tools
}
