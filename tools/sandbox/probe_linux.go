//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// Kernel is what this system can give.
type Kernel struct {
	Landlock   int   // its version, 0 = none
	Shim       error // why no shim can start a command here; nil = it can
	Namespaces error // why a shim can have no namespaces of its own; nil = it can
}

var probing sync.Mutex
var probed *Kernel

// Probe returns what this system can give. It tries it, once for all calls: systems that refuse namespaces do
// so in different places. program is this program's file.
func Probe(program string) Kernel {
	probing.Lock()
	defer probing.Unlock()
	if probed == nil {
		probed = &Kernel{}
		probed.Landlock, _ = ll.LandlockGetABIVersion()
		if probed.Landlock >= leastLandlock {
			probed.Namespaces = try(program, true)
			probed.Shim = try(program, false)
		}
	}
	return *probed
}

// String says what there is, in one line.
func (k Kernel) String() string {
	switch {
	case k.Landlock < leastLandlock:
		return fmt.Sprintf("none: Landlock %d, and %d is needed", k.Landlock, leastLandlock)
	case k.Shim != nil:
		return "none: " + k.Shim.Error()
	case k.Namespaces != nil:
		return fmt.Sprintf("Landlock %d, seccomp; no user namespaces: %v", k.Landlock, k.Namespaces)
	}
	return fmt.Sprintf("Landlock %d, seccomp, user namespaces", k.Landlock)
}

// Check returns what the policy asks and this system cannot give, as an error that says what would run.
// program is this program's file.
func (p *Policy) Check(program string) error {
	kernel := Probe(program)
	return p.lacks(&kernel)
}

// try starts a shim that starts nothing.
func try(program string, namespaces bool) error {
	p := &Policy{}
	cmd := &exec.Cmd{Dir: "/", Env: []string{"GOMAXPROCS=1"}, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	s, err := (&order{Policy: p, Namespaces: namespaces, Probe: true}).wrap(cmd, program)
	if err != nil {
		return err
	}
	err = s.Started(cmd.Start())
	if cmd.Process != nil {
		ended := cmd.Wait()
		err = errors.Join(err, ended)
	}
	s.Close()
	return err
}

// lacks returns what a policy asks and this system cannot give, as an error that names the missing piece.
func (p *Policy) lacks(k *Kernel) error {
	switch {
	case k.Landlock < leastLandlock:
		return fmt.Errorf("sandbox: this system has Landlock %d, and %d is needed "+
			"(Linux 6.12, with landlock among the kernel's lsm=): without sandbox the command would run",
			k.Landlock, leastLandlock)
	case k.Shim != nil:
		return fmt.Errorf("sandbox: %w", k.Shim)
	case p.Limits.Processes > 0 && os.Geteuid() == 0:
		return errors.New("sandbox: limits.processes does not bound root: " +
			"without it, or as another user, the command would run")
	case k.Namespaces == nil:
		return nil
	case p.Proxied:
		return fmt.Errorf("sandbox: a network of some hosts needs user namespaces, and this system has "+
			"none (%w): "+
			"with network: none or network: all the command would run", k.Namespaces)
	case p.Limits.Processes > 0:
		return fmt.Errorf("sandbox: limits.processes needs user namespaces, and this system has none (%w): "+
			"without it the command would run", k.Namespaces)
	}
	for _, dir := range p.Write {
		for _, hidden := range p.Hide {
			if within(hidden, dir) {
				return fmt.Errorf("sandbox: hiding %s in %s, which the command may change, needs user "+
					"namespaces, "+
					"and this system has none (%w): with other directories in write the command would run",
					hidden, dir, k.Namespaces)
			}
		}
	}
	return nil
}
