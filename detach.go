package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"runnel/rpc/mcp"
	"runnel/tools"
)

// detach lets the calls of a tool outlive this process.
func detach(tool tools.Tool, config *tools.Config) error {
	command, ok := tool.(*tools.Command)
	switch {
	case !ok:
		return fmt.Errorf("--detach: %s is no command: only commands can go on by themselves", tool.Describe().Name)
	case config.State.InMemory():
		return errors.New("--detach needs tasks on disk, and they live in memory: name a directory with --state")
	}
	if err := command.Detach(); err != nil {
		return fmt.Errorf("--detach: %w", err)
	}
	return nil
}

// detachPoll is how often a call looks whether its task goes on by itself: it may have to be confirmed before.
const detachPoll = 50 * time.Millisecond

// detached prints the id of the task when it goes on without this process.
func (c *call) detached(wanted context.Context) error {
	id := c.tracker.TaskID()
	for {
		var t struct {
			mcp.Task
			Meta struct {
				Detached bool `json:"runnel/detached"`
			} `json:"_meta"`
		}
		if err := c.client.Call(wanted, "tasks/get", mcp.TaskParams{TaskID: id}, &t); err != nil {
			return c.ended(err)
		}
		switch {
		case t.Meta.Detached:
			c.written(c.view.content(id + "\n"))
			return nil
		case t.Status.Terminal():
			return c.ended(fmt.Errorf("%s: %s", c.name, t.StatusMessage))
		}
		select {
		case <-time.After(detachPoll):
		case <-wanted.Done():
			return errors.Join(c.ended(context.Cause(wanted)), c.cancel(context.WithoutCancel(wanted)))
		}
	}
}
