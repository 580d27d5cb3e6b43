package command

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"runnel/partials"
	"runnel/tools"
	"runnel/tools/config"
	"runnel/tools/process"
)

// Recipe is all that makes a command: for the supervisor of a call that is detached.
type Recipe struct {
	Tool    string
	Config  config.Command // but for Command
	Command []RawText
	Dir     RawText
	Env     RawText // variables with a NUL between two
}

// RawText is a path or what else the system takes as it is: JSON would make U+FFFD of what is not UTF-8.
type RawText string

// MarshalJSON writes the bytes as base64.
func (t RawText) MarshalJSON() ([]byte, error) { return json.Marshal([]byte(t)) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (t *RawText) UnmarshalJSON(encoded []byte) error {
	var raw []byte
	err := json.Unmarshal(encoded, &raw)
	*t = RawText(raw)
	return err
}

// recipe is what the supervisor of a call is told of the command.
func (c *Command) recipe() *Recipe {
	r := &Recipe{Tool: c.name, Config: c.config, Dir: RawText(c.dir), Env: RawText(strings.Join(c.env(), "\x00"))}
	r.Config.Detach, r.Config.Confirm, r.Config.Dir, r.Config.Command = false, "", "", nil // Dir and Env say it all
	for _, element := range c.config.Command {
		r.Command = append(r.Command, RawText(element))
	}
	return r
}

// Make makes the command. Its calls count among those that other supervisors of the owner run on the state.
func (r *Recipe) Make(stateDir, owner string) (*Command, error) {
	conf := r.Config
	for _, element := range r.Command {
		conf.Command = append(conf.Command, string(element))
	}
	c, err := New(r.Tool, conf, config.Environment{Dir: string(r.Dir), Vars: strings.Split(string(r.Env), "\x00")})
	if n := conf.MaxConcurrent; err == nil && n > 0 {
		c.queue = process.NewSlots(stateDir, owner+"\x00"+string(r.Dir)+"\x00"+r.Tool, n)
	}
	return c, err
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
func (c *Command) detach(ctx context.Context, in *tools.Call, out *tools.Output) error {
	var follow func(context.Context, *partials.Reader)
	if pattern := c.marks(); pattern != nil {
		follow = func(ctx context.Context, output *partials.Reader) {
			scanMarks(ctx, output, newProgressMarks(pattern, out.Progress))
		}
	}
	if err := in.Detach(ctx, c.recipe(), follow); err != nil {
		return fmt.Errorf("%s cannot be detached: %w", c.name, err)
	}
	return nil
}

// scanMarks finds the marks of progress in the output of a call that is followed here.
func scanMarks(ctx context.Context, output *partials.Reader, marks *progressMarks) {
	for output.Wait(ctx, 1) == nil {
		if b, ok := output.Next(lineBytes); ok {
			for _, chunk := range b.Chunks() {
				marks.scan(chunk.Data)
			}
		}
	}
}

// lineBytes is how much output is looked at together for marks of progress.
const lineBytes = 4 << 10
