package config

import (
	"maps"
	"slices"
	"strings"
)

// RunsElsewhere returns the name of a tool that workers run, "" if no tool is.
func (c *Config) RunsElsewhere() string {
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		if c.Tools[name].Runs != "" {
			return name
		}
	}
	return ""
}

// Unlisted says which upstreams have no tools on a server with this config, since workers run them whose tools it does not list, "" if there are none.
func (c *Config) Unlisted() string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(c.Upstreams)) {
		if class := c.Upstreams[name].Runs; class != "" && !slices.Contains(c.Fleet.Classes, class) {
			lines = append(lines, c.Locate(Join("upstreams", name), &Error{Key: "runs", Problem: "its tools are not served here: workers of class " + class + " run them",
				Allowed: "fleet: {classes: [" + class + "]} lists them; only workers need the upstream"}).Error())
		}
	}
	return strings.Join(lines, "\n")
}

// OnWorker makes the config that of a worker of some classes, or else of all that its tools and upstreams name: what runs on these runs here,
// and what runs on others is left out. It returns the classes, that of each tool, and that of each upstream. A tool that names none is of the
// first; an upstream that names none is left out.
func (c *Config) OnWorker(classes []string) (all []string, of, ofUpstream map[string]string) {
	if len(classes) == 0 {
		for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
			if class := c.Tools[name].Runs; class != "" && !slices.Contains(classes, class) {
				classes = append(classes, class)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(c.Upstreams)) {
			if class := c.Upstreams[name].Runs; class != "" && !slices.Contains(classes, class) {
				classes = append(classes, class)
			}
		}
	}
	ofUpstream = map[string]string{}
	servers := map[string]Upstream{}
	for name, u := range c.Upstreams {
		if slices.Contains(classes, u.Runs) {
			ofUpstream[name] = u.Runs
			u.Runs = ""
			servers[name] = u
		}
	}
	c.Upstreams = servers
	own, of := map[string]Command{}, map[string]string{}
	for name, tool := range c.Tools {
		switch {
		case len(classes) == 0:
			continue
		case tool.Runs == "":
			of[name] = classes[0]
		case slices.Contains(classes, tool.Runs):
			of[name] = tool.Runs
		default:
			continue
		}
		tool.Runs = ""
		own[name] = tool
	}
	c.Tools = own
	return classes, of, ofUpstream
}
