//go:build darwin

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
)

// sandboxExec is macOS's own program that starts another in a sandbox.
const sandboxExec = "/usr/bin/sandbox-exec"

// Kernel is what this system can give.
type Kernel struct{ Shim, Namespaces error }

// Probe returns what this system can give. It tries it, once for all calls.
func Probe(string) Kernel { return probed() }

var probed = sync.OnceValue(func() Kernel {
	return Kernel{
		Shim:       exec.Command(sandboxExec, "-p", (&Policy{}).profile(), "/usr/bin/true").Run(),
		Namespaces: errors.New("macOS has none"),
	}
})

// String says what there is, in one line.
func (k Kernel) String() string {
	if k.Shim != nil {
		return fmt.Sprintf("none: %s: %v", sandboxExec, k.Shim)
	}
	return "sandbox-exec"
}

// Check returns what the policy asks and this system cannot give, as an error that says what would run.
func (p *Policy) Check(program string) error {
	kernel := Probe(program)
	switch {
	case kernel.Shim != nil:
		return fmt.Errorf("sandbox: %s: %w: without sandbox the command would run", sandboxExec, kernel.Shim)
	case p.Limits != Limits{}:
		return errors.New("sandbox: macOS has no limits here yet: without limits the command would run")
	case p.Proxied:
		return errors.New("sandbox: macOS has no network of some hosts here yet: " +
			"with network: none or network: all the command would run")
	}
	return nil
}

// Shim is a command in its sandbox.
type Shim struct{}

// Wrap makes cmd run in a sandbox. It fails if this system cannot give what the policy asks.
func (p *Policy) Wrap(cmd *exec.Cmd, program string) (*Shim, error) {
	if err := p.Check(program); err != nil {
		return nil, err
	}
	q := *p
	for _, list := range []*[]string{&q.Write, &q.Read, &q.Hide, &q.Keep} {
		*list = resolved(*list)
	}
	cmd.Args = append([]string{sandboxExec, "-p", q.profile(), cmd.Path}, cmd.Args[1:]...)
	cmd.Path = sandboxExec
	return &Shim{}, nil
}

// resolved returns paths without symbolic links; nil is nil.
func resolved(paths []string) (list []string) {
	for _, path := range paths {
		if to, err := filepath.EvalSymlinks(path); err == nil {
			path = to
		}
		list = append(list, path)
	}
	return list
}

// Started returns err: sandbox-exec says itself, in the command's output, why it has not started the command.
func (*Shim) Started(err error) error { return err }

// Ended returns how the command has ended.
func (*Shim) Ended(state *os.ProcessState) syscall.WaitStatus {
	return state.Sys().(syscall.WaitStatus)
}

// Close does nothing.
func (*Shim) Close() {}

// Denied returns that nothing is known to be refused.
func (*Policy) Denied(string, string) string { return "" }
