package command

import "runnel/tools/config"

// CheckSchemas returns the mistakes in the JSON Schemas of commands, each with its place in the config.
func CheckSchemas(c *config.Config, commands []*Command) error {
	var errs []error
	for _, command := range commands {
		if err := command.in.CheckSchemas(command.outputs); err != nil {
			errs = append(errs, c.Locate(config.Join("tools", command.name), err))
		}
	}
	return config.JoinErrors(errs)
}
