package logs

import (
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
)

// The resources of the stateless era say how long they may be kept (2026-07-28 server/utilities/caching), and are
// subscribed to with subscriptions/listen.

// logTTL is how long the log of a task that has ended may be kept: it does not change, but it is gone with its task.
const logTTL = time.Minute

// templatesTTL is how long the list of templates may be kept: runnel has one, and it never changes.
const templatesTTL = time.Minute

// pageTTL is how long the page of the app may be kept: it changes with runnel's version only.
const pageTTL = time.Minute

// private are the hints for what belongs to an owner. Other eras have none.
func private(c *rpc.Caller, ttl time.Duration) *mcp.Cacheable {
	if c.Era != rpc.Stateless {
		return nil
	}
	return &mcp.Cacheable{TTLMs: ttl.Milliseconds(), CacheScope: "private"}
}

// templateHints are those for the list of templates.
func (s *server) templateHints(c *rpc.Caller, others bool) *mcp.Cacheable {
	hints := mcp.Cacheable{TTLMs: templatesTTL.Milliseconds(), CacheScope: "public"}
	if others {
		hints = s.o.Others.Hints()
	}
	if c.Era != rpc.Stateless {
		return nil
	}
	return &hints
}
