package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"runnel/tools/process"
	"runnel/tools/sandbox"
)

// Sandboxed reports whether a child with this "sandbox:" has a sandbox.
func (s *Sandbox) Sandboxed() bool { return s != nil && !s.Off }

// SandboxOf returns the "sandbox:" that counts for a tool or an upstream, with its defaults filled in: its
// own, else that of the whole config; nil = none. A mistake in its own is an *Error.
func (b *Base) SandboxOf(own *Sandbox) (*Sandbox, error) {
	inherited := own == nil
	if inherited {
		own = b.Sandbox
	}
	if own == nil {
		return nil, nil
	}
	filled := *own
	// Config.Check reports those of the whole config.
	if wrong := filled.complete(); wrong != nil && !inherited {
		wrong.Key = Join("sandbox", wrong.Key)
		return nil, wrong
	}
	return &filled, nil
}

// AsksToWrite reports whether the user is asked about a write that is not allowed.
func (s *Sandbox) AsksToWrite() bool { return s.Sandboxed() && slices.Contains(s.Write, reachAsk) }

// Policy returns what a child may do that starts in dir, with the variables that it would inherit without a
// sandbox; nil = all that runnel may. Relative paths are relative to dir. A mistake is an *Error.
func (s *Sandbox) Policy(dir string, vars []string) (*sandbox.Policy, error) {
	if !s.Sandboxed() {
		return nil, nil
	}
	home, _ := process.LookupEnv(vars, HomeVariable)
	var wrong error
	absolute := func(key string, paths []string) (list []string) {
		for i, path := range paths {
			switch {
			case key == "write" && path == reachAsk:
				continue
			case inHome(path):
				if !filepath.IsAbs(home) {
					wrong = &Error{
						Key:     fmt.Sprintf("sandbox.%s[%d]", key, i),
						Problem: path + ": " + HomeVariable + " is not set",
						Allowed: "an absolute path",
					}
				}
				path = filepath.Join(home, path[1:])
			case !filepath.IsAbs(path):
				path = filepath.Join(dir, path)
			}
			list = append(list, filepath.Clean(path))
		}
		return list
	}
	p := &sandbox.Policy{
		Write:   absolute("write", s.Write),
		Hide:    absolute("hide", s.Hide),
		Network: slices.Contains(s.Network, reachAll),
		Proxied: s.Network.proxied(),
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
		p.Read = append(absolute("read", s.Read), dir)
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

// Variables returns those of vars that a child with this "sandbox:" inherits.
func (s *Sandbox) Variables(vars []string) []string {
	if !s.Sandboxed() {
		return vars
	}
	return slices.DeleteFunc(slices.Clone(vars), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		if s.Env != nil {
			return !slices.ContainsFunc(s.Env, func(n string) bool { return process.SameVariable(n, name) })
		}
		return sandbox.IsSecret(name)
	})
}
