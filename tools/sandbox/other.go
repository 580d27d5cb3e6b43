//go:build !linux || !(amd64 || arm64)

package sandbox

import (
	"errors"
	"os/exec"
)

// errNone refuses a sandbox where there is none: a command never runs with more rights than its config says.
var errNone = errors.New("sandbox: runnel has one on Linux only: without sandbox the command would run")

// Kernel is what this system can give: nothing.
type Kernel struct{ Shim, Namespaces error }

// Probe returns that this system can give nothing.
func Probe(string) Kernel { return Kernel{errNone, errNone} }

// String says that there is none.
func (Kernel) String() string { return "none: runnel has one on Linux only" }

// Check fails.
func (p *Policy) Check(string) error { return errNone }

// Wrap fails.
func (p *Policy) Wrap(*exec.Cmd, string) (started func(error) error, err error) { return nil, errNone }
