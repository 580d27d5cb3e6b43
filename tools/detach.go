package tools

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"runnel/partials"
)

// A detached call runs in a process of its own, its supervisor: the same program, in a session of its own. It takes the call's
// task over in the state (tasks.Run.Detach, tasks.Runner.Take), runs the command as any runnel would, and ends when
// the task does: by itself, at a timeout, cancelled by any runnel on that state, or expired. Its guard
// takes the command along when it is killed.

// Detaching is what the supervisors of a runnel must know of it.
type Detaching struct {
	StateDir       RawText // absolute
	MaxState       Size
	Owner          RawText
	MaxPending     Size // tasks.Options.MaxPending
	ErrorsComplete bool // tasks.Options.ErrorsComplete
}

// Detach makes calls of the command detached, whatever its configuration says.
func (c *Command) Detach() error {
	config := c.config
	config.Detach = true
	detached := Command{config: config}
	if err := detached.fillDefaults(); err != nil {
		return err
	}
	c.config = detached.config
	return nil
}

// detach hands a call to a supervisor.
func (c *Command) detach(ctx context.Context, in *Call, out *Output) error {
	if in.detaching == nil || in.run == nil {
		return errors.New("cannot be detached: tasks live in memory here (--state)")
	}
	if err := in.run.Detach(ctx, func() error { return startSupervisor(c.supervised(in)) }); err != nil {
		return fmt.Errorf("%s cannot be detached: %w", c.name, err)
	}
	if pattern := c.marks(); pattern != nil && len(in.caller.Meta.ProgressToken) > 0 {
		in.run.Hold()
		reader := in.run.Log().NewReader(0)
		in.run.Deliver(func(ctx context.Context) {
			scanMarks(ctx, reader, newProgressMarks(pattern, out.Progress))
		})
	}
	return nil
}

// scanMarks finds the marks of progress in the output of a call that is followed here: its supervisor knows no client.
func scanMarks(ctx context.Context, reader *partials.Reader, marks *progressMarks) {
	defer reader.Close()
	for reader.Wait(ctx, 1) == nil {
		if b, ok := reader.Next(lineBytes); ok {
			for _, chunk := range b.Chunks {
				marks.scan(chunk.Data)
			}
		}
	}
}

// supervised is what the supervisor of a call is told.
func (c *Command) supervised(in *Call) *supervised {
	config := c.config
	config.Detach, config.Confirm, config.Dir, config.Command = false, "", "", nil // Dir and Env say it all
	s := &supervised{
		Detaching: *in.detaching,
		TaskID:    in.TaskID,
		Tool:      c.name,
		Config:    config,
		Dir:       RawText(c.dir),
		Env:       RawText(strings.Join(c.env(), "\x00")),
		Arguments: in.Arguments,
		Polls:     in.polls(),
	}
	for _, element := range c.config.Command {
		s.Command = append(s.Command, RawText(element))
	}
	return s
}

// lineBytes is how much output is looked at together for marks of progress.
const lineBytes = 4 << 10
