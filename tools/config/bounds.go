package config

import (
	"fmt"
	"strings"
	"time"

	"runnel/rpc/mcp"
)

// These are the bounds of values, each with its reason.
const (
	minLine      = 256     // an initialize request must fit
	limitLine    = 1 << 30 // a whole line is held in memory
	minPartial   = 256     // less would be nearly all envelope
	limitPartial = mcp.MaxText
	limitPending = 1 << 30 // it is held in memory
	minTTL       = Duration(time.Second)
	minState     = 1 << 20  // an empty state takes some, and a full one needs room to report that
	limitState   = 16 << 40 // 2^32 pages

	limitCalls      = 10000 // all are read where they are listed
	minHistoryLog   = 1 << 10
	limitHistoryLog = 1 << 20 // what waits to be stored is held in memory
)

// Check returns errors about all values that are out of their bounds or do not go together, each with its
// source. It is for a config whose flags and variables have been set.
func (c *Config) Check() error {
	errs := []error{c.CheckBounds(), c.checkHTTP()}
	if detached := c.Detaches(); detached != "" && !c.State.OnDisk() {
		errs = append(errs, c.Locate("",
			&Error{Key: "tools." + detached + ".detach",
				Problem: "always needs tasks on disk, and they live in " + c.State.Place(),
				Allowed: "never, or a directory in state.dir (--state)"}))
	}
	return JoinErrors(errs)
}

// CheckBounds is the part of Check that concerns each value by itself.
func (c *Config) CheckBounds() error {
	var errs []error
	check := func(fine bool, key, problem, allowed string) {
		if !fine {
			errs = append(errs, c.Locate("", &Error{Key: key, Problem: problem, Allowed: allowed}))
		}
	}
	bounds := func(fine bool, key, allowed string, limits ...any) {
		if !fine { // words only for those that fail: each flag of a start is checked so
			check(fine, key, c.Text(key)+" is out of range", fmt.Sprintf(allowed, limits...))
		}
	}
	size := func(key string, v, least, most Size) {
		bounds(least <= v && v <= most, key, "%v to %v", least, most)
	}
	count := func(key string, n, least int) { bounds(n >= least, key, "%d or more", least) }
	span := func(key string, d, least Duration) { bounds(d >= least, key, "%v or more", least) }
	name := func(key, s string) {
		check(strings.TrimSpace(s) != "", key, fmt.Sprintf("%q is not a name", s), "some text")
	}
	name("server.name", c.Server.Name)
	name("server.owner", c.Server.Owner)
	size("limits.maxLine", c.Limits.MaxLine, minLine, limitLine)
	count("limits.maxInFlight", c.Limits.MaxInFlight, 1)
	span("partials.pace", c.Partials.Pace, 0)
	size("partials.maxBytes", c.Partials.MaxBytes, minPartial, limitPartial)
	// A larger MaxBytes has been reported already.
	size("partials.maxPending", c.Partials.MaxPending, min(c.Partials.MaxBytes, limitPartial), limitPending)
	span("tasks.ttl", c.Tasks.TTL, minTTL)
	span("tasks.maxTtl", c.Tasks.MaxTTL, minTTL)
	check(c.Tasks.TTL <= c.Tasks.MaxTTL ||
		c.Origin("tasks.ttl") == "", "tasks.ttl", c.Tasks.TTL.String()+" is longer than tasks.maxTtl",
		c.Tasks.MaxTTL.String()+" at most")
	span("tasks.pollInterval", c.Tasks.PollInterval, Duration(time.Millisecond))
	count("tasks.maxLive", c.Tasks.MaxLive, 1)
	count("tasks.maxStartsPerMinute", c.Tasks.MaxStartsPerMinute, 0)
	count("tasks.maxRequestsPerSecond", c.Tasks.MaxRequestsPerSecond, 0)
	span("tasks.syncWait", c.Tasks.SyncWait, 0)
	span("tasks.immediateWait", c.Tasks.ImmediateWait, 0)
	span("tasks.heartbeat", c.Tasks.Heartbeat, Duration(time.Millisecond))
	size("tasks.maxResult", c.Tasks.MaxResult, MinMaxResult, limitMaxResult)
	size("state.maxState", c.State.MaxState, minState, limitState)
	check(0 <= c.History.Calls && c.History.Calls <= limitCalls, "history.calls",
		c.Text("history.calls")+" is out of range", fmt.Sprintf("0 (off) to %d", limitCalls))
	span("history.age", c.History.Age, minTTL)
	size("history.log", c.History.Log, minHistoryLog, limitHistoryLog)
	if c.Sandbox != nil {
		filled := *c.Sandbox
		if wrong := filled.complete(); wrong != nil {
			check(false, Join("sandbox", wrong.Key), wrong.Problem, wrong.Allowed)
		}
	}
	for i, class := range c.Fleet.Classes {
		check(IsClass(class), fmt.Sprintf("fleet.classes[%d]", i),
			fmt.Sprintf("%q is not a class of workers", class), "1 to 64 letters, digits, - and _")
	}
	return JoinErrors(errs)
}
