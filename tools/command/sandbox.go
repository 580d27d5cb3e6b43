package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"runnel/tools/config"
	"runnel/tools/process"
	"runnel/tools/sandbox"
)

// policy returns what the command may do; nil = all that runnel may. Relative paths are relative to the
// command's directory. A mistake is a *config.Error.
func (c *Command) policy(vars []string) (*sandbox.Policy, error) {
	s := c.config.Sandbox
	if s == nil || s.Off {
		return nil, nil
	}
	home, _ := process.LookupEnv(vars, config.HomeVariable)
	var wrong error
	absolute := func(key string, paths []string) (list []string) {
		for i, path := range paths {
			switch {
			case path == "~" || strings.HasPrefix(path, "~/"):
				if !filepath.IsAbs(home) {
					wrong = &config.Error{
						Key:     fmt.Sprintf("sandbox.%s[%d]", key, i),
						Problem: path + ": " + config.HomeVariable + " is not set",
						Allowed: "an absolute path",
					}
				}
				path = filepath.Join(home, path[1:])
			case !filepath.IsAbs(path):
				path = filepath.Join(c.dir, path)
			}
			list = append(list, filepath.Clean(path))
		}
		return list
	}
	p := &sandbox.Policy{
		Write:   absolute("write", s.Write),
		Hide:    absolute("hide", s.Hide),
		Network: s.Network == "all",
		Sockets: s.UnixSockets == "all",
		Limits: sandbox.Limits{
			Memory:    uint64(s.Limits.Memory),
			Processes: uint64(s.Limits.Processes),
			CPU:       time.Duration(s.Limits.CPU),
			Files:     uint64(s.Limits.Files),
			FileSize:  uint64(s.Limits.FileSize),
		},
	}
	if s.Read != nil {
		p.Read = append(absolute("read", s.Read), c.dir)
	}
	if filepath.IsAbs(home) {
		named := slices.Concat(p.Write, p.Read)
		for _, secret := range sandbox.Secrets(home) {
			if !slices.Contains(named, secret) { // its user knows better
				p.Hide = append(p.Hide, secret)
			}
		}
	}
	for _, dir := range p.Write {
		for _, name := range sandbox.RunsLater {
			if path := filepath.Join(dir, name); !slices.Contains(p.Write, path) {
				p.Keep = append(p.Keep, path)
			}
		}
	}
	return p, wrong
}

// sandboxed returns the variables that a command in a sandbox inherits.
func (c *Command) sandboxed(vars []string) []string {
	names := c.config.Sandbox.Env
	return slices.DeleteFunc(slices.Clone(vars), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		if names != nil {
			return !slices.ContainsFunc(names, func(n string) bool { return process.SameVariable(n, name) })
		}
		return sandbox.IsSecret(name)
	})
}

// confine puts a call's command into its sandbox, with a temporary directory of its own.
func (c *Command) confine(spec *process.Spec, variables *variablesFile) error {
	if c.sandbox == nil {
		return nil
	}
	if variables == nil {
		return errors.New("cannot start the command: its temporary directory cannot be made; " +
			"set TMPDIR to a directory that can be written")
	}
	own := filepath.Join(variables.folder(), "tmp")
	if err := os.Mkdir(own, 0o700); err != nil {
		return fmt.Errorf("cannot start the command: %w", err)
	}
	p := *c.sandbox
	p.Write = append(slices.Clone(p.Write), variables.folder())
	spec.Sandbox = &p
	spec.Env = append(spec.Env, "TMPDIR="+own)
	return nil
}

// bounds says what the command may do, for a model that reads why its command has failed; "" without a
// sandbox.
func (c *Command) bounds() string {
	if c.sandbox == nil {
		return ""
	}
	network := "no network"
	if c.sandbox.Network {
		network = "the network"
	}
	return fmt.Sprintf("[in a sandbox: it may change %s, and has %s]", strings.Join(c.sandbox.Write, ", "), network)
}

// Sandboxed reports whether the command runs in a sandbox here.
func (c *Command) Sandboxed() bool { return c.sandbox != nil && !c.OnWorkers() }

// CheckSandbox returns what the command's sandbox asks and this system cannot give.
func (c *Command) CheckSandbox() error {
	if !c.Sandboxed() {
		return nil
	}
	program, err := process.ThisProgram()
	if err != nil {
		return err
	}
	return c.sandbox.Check(program)
}
