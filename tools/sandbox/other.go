//go:build !darwin && (!linux || !(amd64 || arm64))

package sandbox

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// errNone refuses a sandbox where there is none: a command never runs with more rights than its config says.
var errNone = errors.New("sandbox: runnel has one on Linux and macOS only, not yet on this system: " +
	"without sandbox the command would run")

// Kernel is what this system can give: nothing.
type Kernel struct{ Shim, Namespaces error }

// Probe returns that this system can give nothing.
func Probe(string) Kernel { return Kernel{errNone, errNone} }

// String says that there is none.
func (Kernel) String() string {
	return "none: runnel has one on Linux and macOS only, not yet on this system"
}

// Check fails.
func (p *Policy) Check(string) error { return errNone }

// Shim is a command in its sandbox: here is none.
type Shim struct{}

// Wrap fails.
func (p *Policy) Wrap(*exec.Cmd, string) (*Shim, error) { return nil, errNone }

// Started returns err.
func (*Shim) Started(err error) error { return err }

// Ended returns how the command has ended.
func (*Shim) Ended(state *os.ProcessState) syscall.WaitStatus {
	return state.Sys().(syscall.WaitStatus)
}

// Close does nothing.
func (*Shim) Close() {}

// Denied returns that nothing was refused.
func (*Policy) Denied(string, string) string { return "" }
