package propose

import (
	"strings"

	"go.yaml.in/yaml/v4"
)

// node proposes the scripts of package.json, in order, run by the package manager that the project uses.
func node(d dir) (file string, tools []Tool) {
	file, text := d.read("package.json")
	root := mapping(text)
	manager, _, _ := strings.Cut(value(root, "packageManager"), "@")
	switch {
	case manager == "npm" || manager == "pnpm" || manager == "yarn" || manager == "bun":
	case d.has("pnpm-lock.yaml"):
		manager = "pnpm"
	case d.has("yarn.lock"):
		manager = "yarn"
	case d.has("bun.lock", "bun.lockb"):
		manager = "bun"
	default:
		manager = "npm"
	}
	all := scripts{}
	each(get(root, "scripts"), func(name string, v *yaml.Node) {
		all[name] = v.Value + "\nnpm run pre" + name + " post" + name // npm runs these with it, if they exist
	})
	reaching := all.reaching()
	has := func(name string) bool { _, ok := all[name]; return ok }
	each(get(root, "scripts"), func(name string, v *yaml.Node) {
		base, isPre := strings.CutPrefix(name, "pre")
		if !isPre {
			base, isPre = strings.CutPrefix(name, "post")
		}
		if isPre && has(base) || strings.HasPrefix(name, "-") { // npm runs it with the other script
			return
		}
		t, ok := judge(Tool{Name: toolName(name), Command: []string{manager, "run", name}}, name, v.Value)
		if !ok || t.Name == "" {
			return
		}
		t.Confirm = t.Confirm || reaching[name]
		t.Description = describe("", t.Command, []string{v.Value})
		if split(name)[0] == "test" {
			if manager == "npm" {
				t.Command = append(t.Command, "--")
			}
			t.Command = append(t.Command, "{{args}}")
			t.Inputs = []Input{{"args", more, false}}
			t.Env = []string{"CI=true"} // test runners watch their files without it
		}
		tools = append(tools, t)
	})
	return file, tools
}

// mapping returns the mapping at the root of a YAML or JSON text, nil if there is none.
func mapping(text string) *yaml.Node {
	var doc yaml.Node
	if yaml.Unmarshal([]byte(text), &doc) != nil || len(doc.Content) == 0 ||
		doc.Content[0].Kind != yaml.MappingNode {
		return nil
	}
	return doc.Content[0]
}

// each calls f for each member of a mapping, in order. nil and other kinds have none.
func each(m *yaml.Node, f func(name string, v *yaml.Node)) {
	if m == nil || m.Kind != yaml.MappingNode {
		return
	}
	for n := 0; n+1 < len(m.Content); n += 2 {
		f(m.Content[n].Value, m.Content[n+1])
	}
}

// get returns a member of a mapping, nil if it has none of that name.
func get(m *yaml.Node, key string) (found *yaml.Node) {
	each(m, func(name string, v *yaml.Node) {
		if name == key {
			found = v
		}
	})
	return found
}

// value returns the text of a member of a mapping, "" if there is none.
func value(m *yaml.Node, key string) string {
	if v := get(m, key); v != nil && v.Kind == yaml.ScalarNode {
		return v.Value
	}
	return ""
}
