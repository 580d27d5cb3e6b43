package config

import (
	"maps"
	"slices"
	"strings"
)

// RunsElsewhere returns the name of a tool that workers run, "" if there is none.
func (c *Config) RunsElsewhere() string {
	return c.firstTool(func(t *Command) bool { return t.Runs != "" })
}

// Unlisted returns a warning about upstreams whose tools this server does not list, although workers run
// them; "" if there are none.
func (c *Config) Unlisted() string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(c.Upstreams)) {
		if class := c.Upstreams[name].Runs; class != "" && !slices.Contains(c.Fleet.Classes, class) {
			lines = append(lines, c.Locate(Join("upstreams", name),
				&Error{Key: "runs", Problem: "its tools are not served here: workers of class " + class +
					" run them",
					Allowed: "fleet: {classes: [" + class + "]} lists them; only workers need the upstream"}).
				Error())
		}
	}
	return strings.Join(lines, "\n")
}

// OnWorker turns the config into that of a worker of the given classes, or of all classes that its tools and
// upstreams name if none are given: what runs on these classes runs here, and the rest is left out. It
// returns the classes, the class of each tool, and the class of each upstream. A tool that names no class is
// of the first one; an upstream that names none is left out.
func (c *Config) OnWorker(classes []string) (all []string, of, ofUpstream map[string]string) {
	if len(classes) == 0 {
		classes = c.classes()
	}
	of, ofUpstream = map[string]string{}, map[string]string{}
	for name, u := range c.Upstreams {
		if slices.Contains(classes, u.Runs) {
			ofUpstream[name], u.Runs = u.Runs, ""
			c.Upstreams[name] = u
		} else {
			delete(c.Upstreams, name)
		}
	}
	for name, tool := range c.Tools {
		if tool.Runs == "" && len(classes) > 0 {
			tool.Runs = classes[0]
		}
		if slices.Contains(classes, tool.Runs) {
			of[name], tool.Runs = tool.Runs, ""
			c.Tools[name] = tool
		} else {
			delete(c.Tools, name)
			c.elsewhere = append(c.elsewhere, name)
		}
	}
	return classes, of, ofUpstream
}

// Elsewhere reports whether OnWorker has left a tool out.
func (c *Config) Elsewhere(tool string) bool { return slices.Contains(c.elsewhere, tool) }

// classes returns the classes of workers that the tools and the upstreams name, in the order of their names.
func (c *Config) classes() (list []string) {
	add := func(class string) {
		if class != "" && !slices.Contains(list, class) {
			list = append(list, class)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		add(c.Tools[name].Runs)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Upstreams)) {
		add(c.Upstreams[name].Runs)
	}
	return list
}
