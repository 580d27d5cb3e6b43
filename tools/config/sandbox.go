package config

import (
	"cmp"
	"fmt"
	"slices"
)

// Sandbox is one "sandbox:" of a tool in the config file: what its command may do. Instead of the mapping,
// true means an empty one, and false means no sandbox.
type Sandbox struct {
	// Files and directories that it may change, default its own directory; ask = the user is asked about
	// others.
	Write []string `yaml:"write"`
	Read  []string `yaml:"read"` // those that it may read, besides the system's; nil = all
	// Those that it may not read, besides the secrets of the home.
	Hide        []string `yaml:"hide"`
	Network     Reach    `yaml:"network"`     // none (default), all, ask, or hosts
	UnixSockets string   `yaml:"unixSockets"` // none (default), all
	// The only variables that it gets, besides those of its tool; nil = all but secrets.
	Env    []string      `yaml:"env"`
	Limits SandboxLimits `yaml:"limits"`

	Off bool // there is none
}

// SandboxLimits bounds what each process of a command may use, and how many there may be. 0 = no limit.
type SandboxLimits struct {
	Memory    Size     `yaml:"memory"`
	Processes int      `yaml:"processes"`
	CPU       Duration `yaml:"cpu"`
	Files     int      `yaml:"files"`
	FileSize  Size     `yaml:"fileSize"`
}

// SetShort reads the word that may replace the mapping.
func (s *Sandbox) SetShort(text string) error {
	if text != "true" && text != "false" {
		return Wrong("true, false, or a mapping with write, read, hide, network, unixSockets, env, limits",
			"%q is unknown", text)
	}
	*s = Sandbox{Off: text == "false"}
	return nil
}

// String returns the word for it that SetShort reads.
func (s *Sandbox) String() string { return fmt.Sprint(s != nil && !s.Off) }

// complete fills in the defaults.
func (s *Sandbox) complete() *Error {
	s.UnixSockets = cmp.Or(s.UnixSockets, "none")
	if s.Write == nil || slices.Equal(s.Write, []string{reachAsk}) {
		s.Write = append([]string{"."}, s.Write...)
	}
	if s.UnixSockets != "none" && s.UnixSockets != "all" {
		return &Error{Key: "unixSockets", Problem: fmt.Sprintf("%q is unknown", s.UnixSockets),
			Allowed: "none, all"}
	}
	if err := s.Network.complete(); err != nil {
		return err
	}
	for key, paths := range map[string][]string{"write": s.Write, "read": s.Read, "hide": s.Hide,
		"env": s.Env} {
		if i := slices.Index(paths, ""); i >= 0 {
			return &Error{Key: fmt.Sprintf("%s[%d]", key, i), Problem: "is empty",
				Allowed: "a path, or a name in env"}
		}
	}
	for key, n := range map[string]int{"processes": s.Limits.Processes, "files": s.Limits.Files} {
		if n < 0 {
			return &Error{Key: "limits." + key, Problem: fmt.Sprintf("%d is negative", n),
				Allowed: "1 or more; 0 = no limit"}
		}
	}
	if s.Limits.CPU < 0 {
		return &Error{Key: "limits.cpu", Problem: s.Limits.CPU.String() + " is negative",
			Allowed: "0 or more"}
	}
	return nil
}
