package upstream

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tools/remote"
)

// Messages between a server and its client pass as they are written: requests, notifications, results, errors
// and their _meta, whether runnel knows them or not. These are the exceptions:
//
//	tools/call             a task of runnel's; its own tokens and task; the output goes through the task's log
//	lists                  those of all servers are joined, with their prefixes and runnel's own entries
//	_meta                  ownMeta below
//	progress               has the client's token; runnel adds signs of life where the server is silent
//	cancellation           of the request that was sent for the client's
//	logging/setLevel       to every server that logs; a client of 2026-07-28 gets what it asked for with its call
//	subscriptions          one of runnel's stands for all of its clients
//	list_changed           when runnel has read the list again
//	a server's requests    go to the client of the call that they belong to, else to the session; between the eras they become input_required,
//	                       and wait for a request of the client if there is none
//	results                between the eras, what the client's era does not have
//	ping, cancelled        each connection has its own

// ownMeta are the keys of _meta that are about one connection, so runnel has its own on the other.
var ownMeta = []string{
	"progressToken", "partialResults", "partialResultToken", mcp.MetaVariables, mcp.MetaProtocolVersion,
	mcp.MetaClientCapabilities, mcp.MetaLogLevel,
	mcp.MetaRelatedTask, mcp.MetaSubscriptionID,
}

// toServer returns a client's params for a server. A server of the handshake era knows the client from its
// initialize.
func toServer(params json.RawMessage, era rpc.Era) json.RawMessage {
	if era == rpc.Handshake {
		params = withoutMeta(params, mcp.MetaClientInfo)
	}
	return withoutMeta(params, ownMeta...)
}

// toClient returns a server's params for a client. A progressToken of a request is the server's own: the
// client reports to it.
func toClient(params json.RawMessage) json.RawMessage {
	return withoutMeta(params, mcp.MetaRelatedTask, mcp.MetaSubscriptionID)
}

// withoutMeta returns params or a result without some keys of its _meta.
func withoutMeta(object json.RawMessage, keys ...string) json.RawMessage {
	if len(object) == 0 {
		return json.RawMessage("{}")
	}
	meta := json.RawMessage(rawjson.Member(object, "_meta"))
	kept := meta
	for _, key := range keys {
		if rawjson.Member(kept, key) != nil {
			kept = rawjson.WithMember(kept, key, nil)
		}
	}
	switch {
	case len(kept) == len(meta):
		return object
	case len(kept) == len("{}"):
		return rawjson.WithMember(object, "_meta", nil)
	}
	return rawjson.WithMember(object, "_meta", kept)
}

// shownClient is the client that a server sees: the one that runnel serves, and what runnel can do for it.
type shownClient struct {
	Info         json.RawMessage
	Capabilities json.RawMessage
}

// shown returns the client that a server sees behind a caller; without one it is runnel itself.
func shown(c *rpc.Caller, version string) shownClient {
	client := shownClient{Info: rawjson.Encode(mcp.Implementation{Name: "runnel", Version: version}),
		Capabilities: capabilities(c)}
	if c != nil && rawjson.IsObject(c.Meta.ClientInfo) {
		client.Info = c.Meta.ClientInfo
	}
	return client
}

// capabilities returns those that a server sees behind a caller: the client's own, and those for following a
// task and its output.
func capabilities(c *rpc.Caller) json.RawMessage {
	if c == nil {
		return rawjson.Encode(remote.Capabilities(true))
	}
	return rawjson.Merge(rawjson.Merge(json.RawMessage("{}"), c.Meta.ClientCapabilities),
		rawjson.Encode(remote.Capabilities(false)))
}

const (
	// hopsVariable tells an upstream how many runnels stand before it, as a header does over HTTP. Without
	// it, a runnel that reads the same config as the one that started it would start another, and so on.
	hopsVariable = "RUNNEL_HOPS"
	maxHops      = 8
	// hopsFor is how long a client's number counts: the circle may be broken by then.
	hopsFor = 10 * time.Minute
)

func tooManyHops(hops int) string {
	return fmt.Sprintf("there are %d runnels before this one already, each the upstream of another", hops)
}

// hops holds how many runnels stand before this one, as its clients over HTTP say. In a circle, the number
// grows by one with each round.
type hops struct {
	mu   sync.Mutex
	most int
	said time.Time
}

// came records a client's number.
func (h *hops) came(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n >= h.most || time.Since(h.said) > hopsFor {
		h.most, h.said = n, time.Now()
	}
}

// now returns the number of runnels before this one.
func (h *hops) now() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.said) > hopsFor {
		return 0
	}
	return h.most
}
