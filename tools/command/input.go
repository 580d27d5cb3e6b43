package command

import (
	"bytes"
	"context"

	"runnel/tasks"
	"runnel/tools"
	"runnel/tools/process"
)

// feed passes the input of a call to its program, in a goroutine, until end is called: after Child.Run, which
// ends a write that waits.
func (c *Command) feed(ctx context.Context, in *tools.Call, p *process.Child) (end func()) {
	if !c.config.TakesInput() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			input, err := in.Input(ctx)
			if err != nil {
				return
			}
			c.write(p, input)
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// write passes one piece of input. An error is that of a program that reads no more.
func (c *Command) write(p *process.Child, in tasks.Input) {
	if in.Columns > 0 && in.Rows > 0 {
		_ = p.Resize(in.Columns, in.Rows)
	}
	data := in.Data
	if c.config.Pty && !in.Person {
		data = bytes.ReplaceAll(data, []byte("\n"), []byte("\r")) // which is what the key Enter sends
	}
	if len(data) > 0 {
		_, _ = p.Write(data)
	}
	if in.EOF {
		_ = p.EndInput()
	}
}
