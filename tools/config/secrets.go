package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp/syntax"
	"slices"
	"strings"

	"runnel/tools/process"
	"runnel/tools/secrets"
)

// Secrets names the values that are masked in everything that runnel shows or keeps.
type Secrets struct {
	// Variables with secret values, in runnel's environment and in each env of the file.
	Env      []string `yaml:"env"`
	Patterns []string `yaml:"patterns"` // regular expressions (RE2) that match secrets
}

// MakeSecrets looks up the values of Secrets.Env in vars ("NAME=value"; nil = runnel's own environment), in
// the env of each tool and upstream, and in more. The keys of models are secrets, too. unset lists the names
// without a value. The error joins all mistakes, each with its place.
func (c *Config) MakeSecrets(vars []string,
	more map[string]string) (set *secrets.Set, unset []string, err error) {
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
		if !isVariable(name) {
			wrong(key, fmt.Sprintf("%q is not a name for a variable", name),
				"the name of a variable, not its value")
			continue
		}
		found := valuesOf(name, vars, envs)
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
			allowed := "a regular expression as Go knows them (RE2)"
			if bad := (*syntax.Error)(nil); !errors.As(err, &bad) {
				allowed = "a pattern that matches 3 characters or more, and whose end is near"
			}
			wrong(fmt.Sprintf("patterns[%d]", i), err.Error(), allowed)
		}
	}
	keys, wrongKeys := c.modelSecrets(vars)
	values, errs = append(values, keys...), append(errs, wrongKeys...)
	if len(errs) > 0 {
		return nil, unset, JoinErrors(errs)
	}
	set, err = secrets.New(values, c.Secrets.Patterns)
	return set, unset, err
}

// valuesOf returns the values of a variable in vars and in envs, except empty ones.
func valuesOf(name string, vars []string, envs []map[string]string) []string {
	value, _ := process.LookupEnv(vars, name)
	found := []string{value}
	for _, env := range envs {
		for other, value := range env {
			if process.SameVariable(name, other) {
				found = append(found, value)
			}
		}
	}
	return slices.DeleteFunc(found, func(value string) bool { return value == "" })
}

// UnsetSecrets returns a warning about names without a value, "" if there are none. Pass it the names that
// MakeSecrets returned.
func UnsetSecrets(names []string) string {
	if len(names) == 0 {
		return ""
	}
	are := "is"
	if len(names) > 1 {
		are = "are"
	}
	return fmt.Sprintf("secrets.env: %s %s not set, here or in an env of the config: nothing is masked",
		strings.Join(names, ", "), are)
}
