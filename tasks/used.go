package tasks

import (
	"runnel/internal/signal"
	"runnel/rpc"
	"runnel/rpc/mcp"
)

// Most hosts cannot use tasks, even if their protocol version has them. Those that can show it in their
// sessions: they declare tasks, or use them.

type usedKey struct{}

// Used returns the latch that is set when the caller's session uses tasks, by a task method or by a
// task-augmented call. Use it for what only such a client expects.
func Used(c *rpc.Caller) *signal.Latch {
	return c.SessionValue(usedKey{}, func() any { return &signal.Latch{} }).(*signal.Latch)
}

// CanUse reports whether the caller has shown that it can use tasks.
// Use it to decide whether an answer may hand out a task.
func CanUse(c *rpc.Caller) bool {
	if c.Version.Stateless {
		return c.Capabilities.Extends(mcp.ExtensionTasks)
	}
	return c.Version.Tasks && (c.Capabilities.Tasks != nil || Used(c).IsSet())
}
