package config

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"runnel/tools/process"
	"runnel/tools/secrets"
)

// Secrets are what is masked in all that runnel shows or keeps.
type Secrets struct {
	Env      []string `yaml:"env"`      // names of variables, of runnel's environment and of each env in the file, whose values are secret
	Patterns []string `yaml:"patterns"` // regular expressions (RE2): what they match is secret
}

// MakeSecrets makes of the names their values, in vars ("NAME=value"; nil = runnel's own environment), in the env of each tool and upstream, and in
// more. unset are the names that have no value anywhere, or an empty one.
func (c *Config) MakeSecrets(vars []string, more map[string]string) (set *secrets.Set, unset []string, err error) {
	if vars == nil {
		vars = os.Environ()
	}
	envs := []map[string]string{more}
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		envs = append(envs, c.Tools[name].Env)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Upstreams)) {
		envs = append(envs, c.Upstreams[name].Env)
	}
	var errs []error
	wrong := func(key, problem, allowed string) {
		errs = append(errs, c.Locate("secrets", &Error{Key: key, Problem: problem, Allowed: allowed}))
	}
	var values []string
	for i, name := range c.Secrets.Env {
		key := fmt.Sprintf("env[%d]", i)
		if name == "" || strings.ContainsAny(name, "= \t\n") {
			wrong(key, fmt.Sprintf("%q is no name for a variable", name), "the name of a variable, not its value")
			continue
		}
		value, _ := process.LookupEnv(vars, name)
		found := []string{value}
		for _, env := range envs {
			for other, value := range env {
				if process.SameVariable(name, other) {
					found = append(found, value)
				}
			}
		}
		found = slices.DeleteFunc(found, func(value string) bool { return value == "" })
		if len(found) == 0 {
			unset = append(unset, name)
		}
		for _, value := range found {
			if err := secrets.CheckValue(value); err != nil {
				wrong(key, name+": "+err.Error(), "a longer value, or leave the name out")
				break
			}
		}
		values = append(values, found...)
	}
	for i, pattern := range c.Secrets.Patterns {
		if err := secrets.CheckPattern(pattern); err != nil {
			wrong(fmt.Sprintf("patterns[%d]", i), err.Error(), "a regular expression as Go knows them (RE2)")
		}
	}
	if len(errs) > 0 {
		return nil, unset, JoinErrors(errs)
	}
	set, err = secrets.New(values, c.Secrets.Patterns)
	return set, unset, err
}

// UnsetSecrets says for people that names have no value; "" if all have one.
func UnsetSecrets(names []string) string {
	if len(names) == 0 {
		return ""
	}
	are := "is"
	if len(names) > 1 {
		are = "are"
	}
	return fmt.Sprintf("secrets.env: %s %s not set, here or in an env of the config: nothing is masked", strings.Join(names, ", "), are)
}
