package propose

import (
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"go.yaml.in/yaml/v4"
)

// composer proposes the scripts of composer.json that are not hooks, or the tests if no script runs them.
func composer(d dir) (file string, tools []Tool) {
	file, text := d.read("composer.json")
	root := mapping(text)
	all := scripts{}
	each(get(root, "scripts"), func(name string, v *yaml.Node) { all[name] = phpBody(v) })
	each(get(root, "scripts"), func(name string, v *yaml.Node) {
		hook := strings.HasPrefix(name, "pre-") || strings.HasPrefix(name, "post-")
		if hook || strings.HasPrefix(name, "-") {
			return
		}
		t, ok := judge(Tool{Name: toolName(name),
			Command: []string{"composer", "run-script", "--timeout=0", name}}, name, all[name])
		if !ok || t.Name == "" {
			return
		}
		t.Description = describe(value(get(root, "scripts-descriptions"), name), []string{"composer", name},
			[]string{strings.Join(phpLines(v), ", ")})
		if split(name)[0] == "test" || strings.Contains(name, "phpunit") {
			t.Command = append(t.Command, "--", "{{args}}")
			t.Inputs = []Input{{"args", more, false}}
		}
		tools = append(tools, t)
	})
	all.confirm(tools)
	if strings.Contains(text, `"phpunit/phpunit"`) &&
		!strings.Contains(strings.Join(bodiesOf(tools), "\n"), "phpunit") {
		tools = append(tools, Tool{Name: "test", Description: "Run the tests with PHPUnit, all or some",
			Command: []string{"vendor/bin/phpunit", "{{args}}"}, Inputs: []Input{{"args", more, false}},
			Timeout: "30m"})
	}
	return file, tools
}

func bodiesOf(tools []Tool) (bodies []string) {
	for _, t := range tools {
		bodies = append(bodies, t.body)
	}
	return bodies
}

// phpLines returns the commands of a script of Composer.
func phpLines(v *yaml.Node) (lines []string) {
	if v.Kind != yaml.SequenceNode {
		return []string{v.Value}
	}
	for _, line := range v.Content {
		lines = append(lines, line.Value)
	}
	return lines
}

// phpBody returns these commands as one script, in which @name is a call of another one.
func phpBody(v *yaml.Node) string {
	lines := phpLines(v)
	for n, line := range lines {
		if name, ok := strings.CutPrefix(line, "@"); ok && !strings.HasPrefix(name, "php ") &&
			!strings.HasPrefix(name, "composer ") {
			lines[n] = "run-s " + name
		}
	}
	return strings.Join(lines, "\n")
}

// deno proposes the tasks of deno.json, and the usual tools that none of them is.
func deno(d dir) (file string, tools []Tool) {
	file, text := d.read("deno.json", "deno.jsonc")
	if file == "" {
		return "", nil
	}
	var lines []string // YAML reads JSON, but no comments of JSONC
	for line := range strings.SplitSeq(text, "\n") {
		if !strings.HasPrefix(strings.TrimSpace(line), "//") {
			lines = append(lines, line)
		}
	}
	root := mapping(strings.Join(lines, "\n"))
	body := func(v *yaml.Node) string {
		if v.Kind == yaml.MappingNode {
			return value(v, "command")
		}
		return v.Value
	}
	all := scripts{}
	each(get(root, "tasks"), func(name string, v *yaml.Node) {
		all[name] = strings.ReplaceAll(body(v), "deno task ", "task ")
	})
	each(get(root, "tasks"), func(name string, v *yaml.Node) {
		t, ok := judge(Tool{Name: toolName(name), Command: []string{"deno", "task", name}}, name, body(v))
		if !ok || t.Name == "" || strings.HasPrefix(name, "-") {
			return
		}
		t.Description = describe(value(v, "description"), t.Command, []string{body(v)})
		if split(name)[0] == "test" {
			t.Command = append(t.Command, "{{args}}")
			t.Inputs = []Input{{"args", more, false}}
		}
		tools = append(tools, t)
	})
	all.confirm(tools)
	for _, t := range []Tool{
		{Name: "test", Description: "Run the tests, all or some",
			Command: []string{"deno", "test", "{{paths}}"}, Inputs: []Input{{"paths", operands, false}},
			Timeout: "30m"},
		{Name: "lint", Description: "Look for mistakes in the code", Command: []string{"deno", "lint"},
			Timeout: "10m", ReadOnly: true},
		{Name: "fmt_check", Description: "List files that are not formatted",
			Command: []string{"deno", "fmt", "--check"}, Timeout: "10m", ReadOnly: true},
	} {
		if !slices.ContainsFunc(tools, func(other Tool) bool { return other.Name == t.Name }) {
			tools = append(tools, t)
		}
	}
	return file, tools
}

// mise proposes the tasks of mise.toml.
func mise(d dir) (file string, tools []Tool) {
	file, text := d.read("mise.toml", ".mise.toml")
	var conf struct{ Tasks map[string]any }
	if file == "" || toml.Unmarshal([]byte(text), &conf) != nil {
		return "", nil
	}
	type task struct{ run, says, depends string }
	list := func(v any) string {
		switch v := v.(type) {
		case string:
			return v
		case []any:
			var lines []string
			for _, line := range v {
				if text, ok := line.(string); ok {
					lines = append(lines, text)
				}
			}
			return strings.Join(lines, "\n")
		}
		return ""
	}
	all := scripts{}
	known := map[string]task{}
	names := []string{}
	for name, v := range conf.Tasks {
		t := task{run: list(v)}
		if m, ok := v.(map[string]any); ok {
			if m["hide"] == true {
				continue
			}
			t = task{list(m["run"]), list(m["description"]),
				strings.ReplaceAll(list(m["depends"]), "\n", " ")}
		}
		all[name] = "task " + t.depends + "\n" + strings.ReplaceAll(t.run, "mise run ", "task ")
		known[name] = t
		names = append(names, name)
	}
	// a TOML table has no order.
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(a, b) })
	for _, name := range names {
		t, ok := judge(Tool{Name: toolName(name), Command: []string{"mise", "run", name}}, name,
			known[name].run)
		if !ok || t.Name == "" || strings.HasPrefix(name, "-") {
			continue
		}
		t.Description = describe(known[name].says, t.Command, strings.Split(known[name].run, "\n"))
		tools = append(tools, t)
	}
	all.confirm(tools)
	return file, tools
}
