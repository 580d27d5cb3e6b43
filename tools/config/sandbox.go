package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"runnel/tools/process"
	"runnel/tools/proxy"
	"runnel/tools/sandbox"
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

// Reach is the network that a sandbox leaves: one of the words, or hosts as proxy.ParseHost reads them, with
// ask among them if the user is asked about others.
type Reach []string

const (
	reachNone = "none"
	reachAll  = "all"
	reachAsk  = "ask"
)

// SetShort reads one word or one host.
func (r *Reach) SetShort(text string) error {
	*r = Reach{text}
	return nil
}

// complete fills in the default, and checks the hosts.
func (r *Reach) complete() *Error {
	if len(*r) == 0 {
		*r = Reach{reachNone}
	}
	for i, text := range *r {
		key := "network"
		if len(*r) > 1 {
			key = fmt.Sprintf("network[%d]", i)
		}
		switch text {
		case reachAsk:
		case reachNone, reachAll:
			if len(*r) > 1 {
				return &Error{Key: key, Problem: text + " stands among others",
					Allowed: "it alone, or hosts and ask"}
			}
		default:
			if _, err := proxy.ParseHost(text); err != nil {
				return &Error{Key: key, Problem: fmt.Sprintf("%q: %v", text, err),
					Allowed: "none, all, ask, or hosts such as example.com:443 and *.example.com:443"}
			}
		}
	}
	return nil
}

// proxied reports whether some of the network is reached, through a proxy.
func (r Reach) proxied() bool {
	return len(r) > 0 && !slices.Contains(r, reachNone) && !slices.Contains(r, reachAll)
}

// Proxy returns the proxy for one child with this "sandbox:", and the variables by which the child finds it;
// nil if it needs none. ask: the user is asked about hosts that are not listed.
func (s *Sandbox) Proxy() (p *proxy.Proxy, vars []string, ask bool) {
	if !s.Sandboxed() || !s.Network.proxied() {
		return nil, nil, false
	}
	var hosts []proxy.Host
	for _, text := range s.Network {
		if h, err := proxy.ParseHost(text); err == nil { // complete has checked them
			hosts = append(hosts, h)
		}
	}
	return proxy.New(hosts), proxy.Variables(sandbox.ProxyAddress), slices.Contains(s.Network, reachAsk)
}

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
