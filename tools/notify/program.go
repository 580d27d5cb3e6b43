package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"runnel/tools/process"
)

const (
	programTimeout = 30 * time.Second
	programGrace   = time.Second // a notice is not worth a longer wait
	maxPrinted     = 4 << 10     // bytes of its output that are logged
)

// program is a way that runs a program in a process group of its own, without a shell.
type program struct {
	// Its arguments, and variables beside those of the notice.
	argv func(n *notice) (argv []string, more map[string]string)
	vars []string
	dir  string
}

func (p *program) check() error {
	argv, _ := p.argv(&notice{})
	_, err := p.find(argv[0])
	return err
}

func (p *program) find(name string) (string, error) {
	path, _ := process.LookupEnv(p.vars, "PATH")
	return process.FindProgram(name, p.dir, path)
}

func (p *program) tell(ctx context.Context, n *notice) error {
	argv, more := p.argv(n)
	path, err := p.find(argv[0])
	if err != nil {
		return err
	}
	variables := n.variables()
	for name, value := range more {
		variables[name] = value
	}
	child, err := process.Start(&process.Spec{Path: path, Argv: argv, Dir: p.dir,
		Env: process.Environ(p.vars, p.dir, variables), Stderr: "merge"})
	if err != nil {
		return err
	}
	var printed head
	ending := child.Run(ctx, &printed, nil, process.Limits{Timeout: programTimeout, Grace: programGrace})
	zerolog.Ctx(ctx).Debug().Str("program", argv[0]).Bytes("printed", printed.Bytes()).
		Msg("a notice was handed to a program")
	switch {
	case ending.Stop == process.Cancelled:
		return fmt.Errorf("%s was stopped: runnel ends", argv[0])
	case ending.Stop != 0:
		return fmt.Errorf("%s was stopped after %v", argv[0], programTimeout)
	case ending.Unknown != nil:
		return fmt.Errorf("%s has ended, but the system does not tell how: %w", argv[0], ending.Unknown)
	case ending.State == nil:
		return errors.New(argv[0] + " was killed")
	case !ending.State.Success():
		return fmt.Errorf("%s: %s; --log-level debug shows what it prints", argv[0], ending.State)
	}
	return nil
}

// head is a writer that keeps the beginning of its input.
type head struct{ bytes.Buffer }

func (h *head) Write(p []byte) (int, error) {
	h.Buffer.Write(p[:min(len(p), max(maxPrinted-h.Len(), 0))])
	return len(p), nil
}
