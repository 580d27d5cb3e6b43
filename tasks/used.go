package tasks

import (
	"runnel/rpc"
	"runnel/rpc/mcp"
)

// Most hosts of a version that has tasks cannot do them. Which can, their sessions show: they declare tasks, or use them.

type usedKey struct{}

// Used happens when the caller's session uses tasks: by a task method, or by a call that is augmented with a task.
func Used(c *rpc.Caller) *rpc.Latch {
	return c.SessionValue(usedKey{}, func() any { return &rpc.Latch{} }).(*rpc.Latch)
}

// CanUse reports whether the caller has shown that it can do tasks.
func CanUse(c *rpc.Caller) bool {
	if c.Version.Stateless {
		return c.Capabilities.Extends(mcp.ExtensionTasks)
	}
	return c.Version.Tasks && (c.Capabilities.Tasks != nil || Used(c).IsSet())
}
