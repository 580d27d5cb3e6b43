package rpc

import (
	"context"
	"sync"
	"time"
)

// Context is a context.WithCancelCause that is made when somebody looks at it: most small calls end before anybody has looked
// at the context of their request or at that of their task. To enter both with their parents and to take them out again was
// a tenth of such a call's processor time. Parent must be set; the rest is usable as it is.
type Context struct {
	Parent context.Context

	mu     sync.Mutex
	made   context.Context // nil: nobody has looked
	cancel context.CancelCauseFunc
	ended  bool // before anybody looked
	cause  error
}

// Cancel ends the context. Only the first cause counts, which may be that of the parent.
func (c *Context) Cancel(cause error) {
	c.mu.Lock()
	cancel := c.cancel
	if cancel == nil && !c.ended && c.Parent.Err() == nil { // else the parent's cause was first
		c.ended, c.cause = true, cause
	}
	c.mu.Unlock()
	if cancel != nil {
		cancel(cause)
	}
}

func (c *Context) look() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.made != nil:
	case c.ended: // whatever became of the parent since
		c.made, c.cancel = context.WithCancelCause(context.WithoutCancel(c.Parent))
		c.cancel(c.cause)
	default:
		c.made, c.cancel = context.WithCancelCause(c.Parent)
	}
	return c.made
}

// Deadline implements context.Context.
func (c *Context) Deadline() (time.Time, bool) { return c.Parent.Deadline() }

// Done implements context.Context.
func (c *Context) Done() <-chan struct{} { return c.look().Done() }

// Err implements context.Context. To ask is not to look.
func (c *Context) Err() error {
	c.mu.Lock()
	made, ended := c.made, c.ended
	c.mu.Unlock()
	if made == nil && !ended {
		return c.Parent.Err()
	}
	return c.look().Err()
}

// Value implements context.Context. It is also how package context finds the cause, and where to enter what derives from this one.
func (c *Context) Value(key any) any { return c.look().Value(key) }
