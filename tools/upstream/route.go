package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// What a server sends belongs to one of the calls on its link: it names the call's token, or the task that the call has become. For
// what names neither, each kind of message has its own rule.

// notification takes a notification of the server's.
func (l *link) notification(method string, params json.RawMessage) {
	switch method {
	case "notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed":
		select {
		case l.relist <- struct{}{}:
		default:
		}
	case "notifications/resources/updated":
		l.u.subscriptions.updated(params)
	case "notifications/elicitation/complete":
		l.u.set.tellSession(method, params)
	case "notifications/message":
		c := l.only(params)
		l.u.set.passMessage(c, params)
		if c != nil {
			c.logLine(params)
		} else {
			l.u.log.Debug().Bytes("says", params[:min(len(params), maxLogLine)]).Msg("upstream, of no call or of one of several")
		}
	case "notifications/progress":
		if c := l.find(params); c != nil {
			c.remote.Notification(method, params)
			c.progress(params)
		}
	default:
		if c := l.find(params); c != nil {
			c.remote.Notification(method, params)
			return
		}
		// Of a task whose handle has not come yet, or of nothing.
		for _, c := range l.under() {
			if c.remote.Tracker().TaskID() == "" {
				c.remote.Notification(method, params)
			}
		}
	}
}

// request answers the server's questions. One that names no task, while several calls are under way, is put to the user
// in the newest of them, unless they are of several clients: nothing tells whose question it is.
func (l *link) request(ctx context.Context, method string, params json.RawMessage) (any, error) {
	switch method {
	case "elicitation/create":
		if rawjson.StringMember(params, "mode") == "url" {
			return l.askClient(ctx, method, params)
		}
	case "sampling/createMessage", "roots/list":
		return l.askClient(ctx, method, params)
	default:
		return nil, rpc.Errorf(mcp.CodeMethodNotFound, "method not found: %.100q", method)
	}
	c, err := l.asks(params)
	if err != nil {
		return nil, err
	}
	return c.ask(ctx, params)
}

// asks is the call whose question it is.
func (l *link) asks(params json.RawMessage) (*call, error) {
	if c := l.only(params); c != nil {
		return c, nil
	}
	calls := l.under()
	if len(calls) == 0 {
		return nil, rpc.Errorf(mcp.CodeInternalError, "no call is under way: there is nobody to ask")
	}
	c := calls[len(calls)-1]
	for _, other := range calls {
		if !bytes.Equal(other.caller.Head(), c.caller.Head()) {
			return nil, rpc.Errorf(mcp.CodeInternalError, "whose question is this? %d calls of several clients are under way, and it names no task", len(calls))
		}
	}
	return c, nil
}

// only is the call that a message must be of: the one that it names, else the one that is under way.
func (l *link) only(params json.RawMessage) *call {
	if c := l.find(params); c != nil {
		return c
	}
	if calls := l.under(); len(calls) == 1 {
		return calls[0]
	}
	return nil
}

// find finds the call that a message names by its token or its task.
func (l *link) find(params json.RawMessage) *call {
	if !rawjson.IsObject(params) {
		return nil
	}
	var token, task []byte
	rawjson.EachMember(params, func(name, value []byte) bool {
		switch string(name) {
		case "progressToken", "partialResultToken":
			token = value
		case "taskId":
			task = value
		case "_meta":
			if task == nil && rawjson.IsObject(value) {
				task = namedTask(value)
			}
		}
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.calls {
		if token != nil && bytes.Equal(token, c.token) {
			return c
		}
		if task != nil {
			if id := c.remote.Tracker().TaskID(); id != "" && string(task) == `"`+id+`"` {
				return c
			}
		}
	}
	return nil
}

// namedTask is the id, in quotes, of the task that a _meta names; nil if it names none.
func namedTask(meta []byte) (task []byte) {
	rawjson.EachMember(meta, func(name, value []byte) bool {
		if string(name) == mcp.MetaRelatedTask && rawjson.IsObject(value) {
			rawjson.EachMember(value, func(name, value []byte) bool {
				if string(name) == "taskId" {
					task = value
				}
				return true
			})
		}
		return true
	})
	return task
}

// under are the calls that are under way.
func (l *link) under() []*call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.calls)
}
