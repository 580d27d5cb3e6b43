package command

import (
	"bytes"
	"context"
	"strings"
	"sync"

	"runnel/partials"
	"runnel/tasks"
	"runnel/tools"
	"runnel/tools/process"
	"runnel/tools/terminal"
)

// feed passes the input of a call to its program, in goroutines, until end is called: after Child.Run, which
// ends a write that waits.
func (c *Command) feed(ctx context.Context, in *tools.Call, p *process.Child, r *record) (end func()) {
	if !c.config.TakesInput() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var feeds sync.WaitGroup
	prompts := newPasswords(in, p, r)
	if c.config.Interactive {
		feeds.Go(func() { prompts.watch(ctx) })
	}
	feeds.Go(func() {
		for {
			input, err := in.Input(ctx)
			if err != nil {
				return
			}
			if input.Password != 0 {
				if !prompts.waits(input.Password) {
					continue
				}
				r.typed.add(strings.TrimSuffix(string(input.Data), "\n")) // before the program can print it
			}
			prompts.typed(input)
			c.write(ctx, p, r, input)
		}
	})
	feeds.Go(func() {
		for {
			select {
			case code := <-r.stdout.answers:
				_, _ = p.Write([]byte(code))
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		feeds.Wait()
	}
}

// write passes one piece of input. An error is that of a program that reads no more.
func (c *Command) write(ctx context.Context, p *process.Child, r *record, in tasks.Input) {
	if c.config.Interactive && in.Columns > 0 && in.Rows > 0 && p.Resize(in.Columns, in.Rows) == nil {
		_ = r.out.Log().Append(ctx, partials.Chunk{Data: terminal.Resized(in.Columns, in.Rows)})
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

// screen returns the size of the screen that the log of a call has, columns and rows; zero if it has none.
func (c *Command) screen() (size [2]int) {
	if c.config.Interactive {
		size[0], size[1], _ = c.config.TerminalSize()
	}
	return size
}
