package tools

import (
	"cmp"
	"strings"
	"time"

	"runnel/internal/clients"
	"runnel/internal/shorten"
	"runnel/rpc"
	"runnel/tools/text"
)

// known returns what is known about a client.
func known(c *rpc.Caller) clients.Client { return clients.Find(c.Client.Name, c.Client.Version) }

// maxHostName is how much of a host's name is kept, in bytes.
const maxHostName = 64

// hostName returns the name of the host that makes a call; "" for runnel call, in a supervisor and in a
// worker.
func hostName(c *rpc.Caller) string {
	if c == nil || c.Client.Name == "runnel" {
		return ""
	}
	return strings.Clone(shorten.Cut(c.Client.Name, maxHostName))
}

func (s *service) syncWait(c *rpc.Caller) time.Duration {
	if wait := known(c).SyncWait; s.o.ByClient.SyncWait && wait > 0 {
		return wait
	}
	return s.o.SyncWait
}

func (s *service) immediateWait(c *rpc.Caller) time.Duration {
	if wait := known(c).ImmediateWait; s.o.ByClient.ImmediateWait && wait > 0 {
		return wait
	}
	return s.o.ImmediateWait
}

// maxResult returns how much text of a result a client's model is shown, in bytes.
func (s *service) maxResult(c *rpc.Caller) int {
	if most := known(c).MaxResult; s.o.ByClient.MaxResult && most > 0 {
		return most
	}
	return cmp.Or(s.o.MaxResult, text.DefaultMaxResult)
}

// shows returns what a client shows its model of a result. In a supervisor or a worker the client is nil.
func (s *service) shows(c *rpc.Caller) (most, mostOfError int) {
	if c == nil {
		most, mostOfError = cmp.Or(s.taken.Client.MaxResult, text.DefaultMaxResult), s.taken.Client.MaxError
		if s.taken.Flattens && isDone(s.taken.Known) { // see MaxError
			mostOfError = most
		}
		return most, mostOfError
	}
	return s.maxResult(c), known(c).MaxError
}

// MaxResult returns how much text the result of the call may have, in bytes. own is the tool's own limit, 0
// if it has none.
func (c *Call) MaxResult(own int) int {
	if own > 0 || c.server == nil {
		return cmp.Or(own, text.DefaultMaxResult)
	}
	most, _ := c.server.shows(c.caller)
	return most
}

// MaxError is MaxResult for a call that has failed: some clients show less of an error than of another text.
// A task's error may reach the client as another text (tasks.Readable).
func (c *Call) MaxError(own int) int {
	most := c.MaxResult(own)
	if c.server == nil || c.caller != nil && known(c.caller).Flattens && c.run != nil && c.run.HasHandle() {
		return most
	}
	_, ofError := c.server.shows(c.caller)
	return min(most, cmp.Or(ofError, most))
}
