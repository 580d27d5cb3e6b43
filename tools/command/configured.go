package command

import (
	"maps"
	"slices"

	"runnel/tools/config"
)

// All makes the tools that the config describes, sorted by name. They run in the directory of the
// config file, in an environment of vars ("NAME=value"; nil = runnel's own).
func All(c *config.Config, vars []string) ([]*Command, error) {
	env := config.Environment{Dir: c.Dir(), Vars: vars, MaxResult: c.Tasks.MaxResult}
	var list []*Command
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		tool, err := newChecked(name, c.Tools[name], env)
		if err != nil {
			errs = append(errs, c.Locate(config.Join("tools", name), err))
			continue
		}
		list = append(list, tool)
	}
	return list, config.JoinErrors(errs)
}
