package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"runnel/tools"
	"runnel/tools/process"
)

// confine puts a call's command into its sandbox, with a temporary directory of its own.
func (c *Command) confine(in *tools.Call, spec *process.Spec, variables *variablesFile) error {
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
	p.Write = append(slices.Concat(p.Write, c.grantsOf(in).paths(c.name)), variables.folder())
	spec.Sandbox = &p
	spec.Env = append(spec.Env, "TMPDIR="+own)
	return nil
}

// bounds says what the sandbox of a command that has failed refused, as far as the end of its output shows
// it, and what it allows, for a model that reads why; "" without a sandbox.
func (c *Command) bounds(output []byte) string {
	if c.sandbox == nil {
		return ""
	}
	network := "no network"
	switch {
	case c.sandbox.Network:
		network = "the network"
	case c.sandbox.Proxied:
		network = "the network for " + strings.Join(c.config.Sandbox.Network, ", ") +
			" alone, through the proxy in HTTPS_PROXY"
	}
	allowed := fmt.Sprintf("changing %s, and %s", strings.Join(c.sandbox.Write, ", "), network)
	if denied := c.sandbox.Denied(string(output), c.dir); denied != "" {
		return fmt.Sprintf("blocked by the sandbox: %s; allowed: %s", denied, allowed)
	}
	return fmt.Sprintf("[in a sandbox; allowed: %s]", allowed)
}

// askToWrite asks the user about a write that the sandbox refused, and returns what the model should know; ""
// if nothing has changed.
func (c *Command) askToWrite(ctx context.Context, in *tools.Call, output []byte) string {
	if in.Caller() == nil || !c.config.Sandbox.AsksToWrite() { // a worker's callers have sessions elsewhere
		return ""
	}
	denied := c.sandbox.Denied(string(output), c.dir)
	path, ok := strings.CutPrefix(denied, "write to ")
	if !ok {
		return ""
	}
	if _, err := os.Lstat(path); err != nil { // it would be made
		path = filepath.Dir(path)
	}
	wider := *c.sandbox
	wider.Write = append(slices.Clip(wider.Write), path)
	if wider.Denied(string(output), c.dir) == denied || !c.grants(ctx, in, changing+path, writeForm) {
		return ""
	}
	return fmt.Sprintf("blocked by the sandbox: %s; its user allows it from now on: call %s again",
		denied, c.name)
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
