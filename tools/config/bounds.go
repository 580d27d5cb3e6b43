package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"runnel/rpc/mcp"
)

// Check reports the values that are out of their bounds.
func (c *Config) Check() error {
	var errs []error
	for _, e := range c.outOfBounds() {
		errs = append(errs, c.Locate("", e))
	}
	return JoinErrors(errs)
}

// Bounds of what can be configured, each with its reason.
const (
	minLine      = 256     // an initialize request must fit
	limitLine    = 1 << 30 // a line is held in memory, whole
	minPartial   = 256     // less is all envelope
	limitPartial = mcp.MaxText
	limitPending = 1 << 30 // it is held in memory
	minTTL       = Duration(time.Second)
	minState     = 1 << 20  // an empty state takes some, and one that is full must have room to say so
	limitState   = 16 << 40 // 2^32 pages
)

func (c *Config) outOfBounds() (list []*Error) {
	bad := func(key string, value any, problem, allowed string) {
		list = append(list, &Error{Key: key, Problem: fmt.Sprintf("%v %s", value, problem), Allowed: allowed})
	}
	size := func(key string, v, least, most Size) {
		if v < least || v > most {
			bad(key, v, "is out of range", fmt.Sprintf("%v to %v", least, most))
		}
	}
	count := func(key string, n int) {
		if n < 1 {
			bad(key, n, "is out of range", "1 or more")
		}
	}
	for key, s := range map[string]string{"server.name": c.Server.Name, "server.owner": c.Server.Owner} {
		if strings.TrimSpace(s) == "" {
			bad(key, fmt.Sprintf("%q", s), "is no name", "some text")
		}
	}
	size("limits.maxLine", c.Limits.MaxLine, minLine, limitLine)
	count("limits.maxInFlight", c.Limits.MaxInFlight)
	if c.Partials.Pace < 0 {
		bad("partials.pace", c.Partials.Pace, "is negative", "0 (each chunk its own notification) or more")
	}
	size("partials.maxBytes", c.Partials.MaxBytes, minPartial, limitPartial)
	size("partials.maxPending", c.Partials.MaxPending, min(c.Partials.MaxBytes, limitPartial), limitPending) // more is told already
	for key, d := range map[string]Duration{"tasks.ttl": c.Tasks.TTL, "tasks.maxTtl": c.Tasks.MaxTTL} {
		if d < minTTL {
			bad(key, d, "is out of range", fmt.Sprintf("%v or more", minTTL))
		}
	}
	if c.Tasks.TTL > c.Tasks.MaxTTL && c.Origin("tasks.ttl") != "" {
		bad("tasks.ttl", c.Tasks.TTL, "is longer than tasks.maxTtl", fmt.Sprintf("%v at most", c.Tasks.MaxTTL))
	}
	if c.Tasks.PollInterval < Duration(time.Millisecond) {
		bad("tasks.pollInterval", c.Tasks.PollInterval, "is out of range", "1ms or more")
	}
	count("tasks.maxLive", c.Tasks.MaxLive)
	for key, n := range map[string]int{"tasks.maxStartsPerMinute": c.Tasks.MaxStartsPerMinute, "tasks.maxRequestsPerSecond": c.Tasks.MaxRequestsPerSecond} {
		if n < 0 {
			bad(key, n, "is negative", "1 or more; 0 = no limit")
		}
	}
	for key, d := range map[string]Duration{"tasks.syncWait": c.Tasks.SyncWait, "tasks.immediateWait": c.Tasks.ImmediateWait} {
		if d < 0 {
			bad(key, d, "is negative", "0 or more")
		}
	}
	size("tasks.maxResult", c.Tasks.MaxResult, MinMaxResult, LimitMaxResult)
	size("state.maxState", c.State.MaxState, minState, limitState)
	if c.Tasks.Heartbeat < Duration(time.Millisecond) {
		bad("tasks.heartbeat", c.Tasks.Heartbeat, "is out of range", "1ms or more")
	}
	if name := c.Detaches(); name != "" && c.State.InMemory() {
		bad("tools."+name+".detach", true, "needs tasks on disk, and they live in memory", "false, or a directory in state.dir (--state)")
	}
	slices.SortFunc(list, func(a, b *Error) int { return strings.Compare(a.Key, b.Key) })
	return list
}
