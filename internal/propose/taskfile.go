package propose

import (
	"strings"

	"go.yaml.in/yaml/v4"
)

var variable = pattern(`^[A-Za-z_][A-Za-z0-9_]*$`)

// taskfile proposes the tasks of a Taskfile that are not internal, with the variables that they require.
func taskfile(d dir) (file string, tools []Tool) {
	file, text := d.read("Taskfile.yml", "taskfile.yml", "Taskfile.yaml", "taskfile.yaml",
		"Taskfile.dist.yml", "Taskfile.dist.yaml")
	all := scripts{}
	each(get(mapping(text), "tasks"), func(name string, task *yaml.Node) {
		all[name] = strings.Join(append(bodies(task), others(task)...), "\n")
	})
	each(get(mapping(text), "tasks"), func(name string, task *yaml.Node) {
		if value(task, "internal") == "true" || strings.ContainsAny(name, "* ") ||
			strings.HasPrefix(name, "-") {
			return
		}
		body := bodies(task)
		t := Tool{Name: toolName(name), Command: []string{"task", name}}
		if get(task, "prompt") != nil {
			t.Command, t.Confirm = []string{"task", "--yes", name}, true
		}
		t, ok := judge(t, name, strings.Join(body, "\n"))
		if !ok || t.Name == "" {
			return
		}
		said := value(task, "desc")
		if said == "" {
			said = value(task, "summary")
		}
		t.Description = describe(said, t.Command, body)
		if vars := get(get(task, "requires"), "vars"); vars != nil {
			for _, v := range vars.Content {
				name := v.Value
				if v.Kind == yaml.MappingNode {
					name = value(v, "name")
				}
				if variable().MatchString(name) {
					t.Inputs = append(t.Inputs, Input{name, one, true})
					t.Command = append(t.Command, name+"={{"+name+"}}")
				}
			}
		}
		tools = append(tools, t)
	})
	all.confirm(tools)
	return file, tools
}

// bodies returns the commands of a task, in any of the ways to write them.
func bodies(task *yaml.Node) (body []string) {
	switch task.Kind {
	case yaml.ScalarNode:
		return []string{task.Value}
	case yaml.SequenceNode:
		for _, cmd := range task.Content {
			body = append(body, bodies(cmd)...)
		}
	case yaml.MappingNode:
		for _, key := range []string{"cmd", "cmds"} {
			if v := get(task, key); v != nil {
				body = append(body, bodies(v)...)
			}
		}
	}
	return body
}

// others returns the tasks that a task runs before, among or after its commands, as calls.
func others(task *yaml.Node) (list []string) {
	switch task.Kind {
	case yaml.SequenceNode:
		for _, cmd := range task.Content {
			list = append(list, others(cmd)...)
		}
	case yaml.MappingNode:
		if name := value(task, "task"); name != "" {
			list = append(list, "task "+name)
		}
		if deps := get(task, "deps"); deps != nil {
			for _, dep := range deps.Content {
				if dep.Kind == yaml.ScalarNode {
					list = append(list, "task "+dep.Value)
				}
			}
		}
		for _, key := range []string{"deps", "cmds", "defer"} {
			if v := get(task, key); v != nil {
				list = append(list, others(v)...)
			}
		}
	}
	return list
}
