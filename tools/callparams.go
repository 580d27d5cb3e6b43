package tools

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
)

// callParams reads the params of a call. It ignores a member that the version does not know, whatever its
// value: "Receivers that do not declare the task capability [...] MUST process requests of that type
// normally, ignoring any task-augmentation metadata" (2025-11-25 basic/utilities/tasks), and since 2026-07-28
// "servers MUST ignore it (treat the field as unknown)" (SEP-2663).
//
// It refuses what JSON readers interpret differently: "Name" for "name", and a member that is there twice. A
// filter that looks at calls on their way, and lets only some tools through, must see the tool that is really
// called.
func callParams(v *mcp.Version, params json.RawMessage) (*mcp.CallToolParams, error) {
	if !rawjson.IsObject(params) {
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "params must be an object with a name and arguments")
	}
	p := &mcp.CallToolParams{Raw: params}
	var seen [len(callMembers)]bool
	for it := rawjson.Over(params); it.Next(); {
		name, value := string(it.Name), it.Value
		i := slices.IndexFunc(callMembers[:], func(known string) bool { return strings.EqualFold(known, name) })
		switch {
		case i < 0:
			continue
		case callMembers[i] != name:
			return nil, rpc.Errorf(mcp.CodeInvalidParams, "params.%s is written %q", name, callMembers[i])
		case seen[i]:
			return nil, rpc.Errorf(mcp.CodeInvalidParams, "params.%s is there twice", name)
		}
		seen[i] = true
		var err error
		switch member := callMembers[i]; {
		case member == "name":
			p.Name = rawjson.Unquote(value)
		case member == "arguments":
			p.Arguments = value
		case member == "task" && v.Tasks:
			err = rpc.ReadParam("params."+member, value, &p.Task)
		case member == "inputResponses" && v.Stateless:
			err = rpc.ReadParam("params."+member, value, &p.InputResponses)
		case member == "requestState" && v.Stateless:
			err = rpc.ReadParam("params."+member, value, &p.RequestState)
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case p.Name == "":
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "params.name must be a tool's name")
	case len(p.Arguments) == 0 || string(p.Arguments) == "null":
		p.Arguments = json.RawMessage("{}")
	case p.Arguments[0] != '{':
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "params.arguments must be an object")
	}
	return p, nil
}

// callMembers are the members that the params of a call may have.
var callMembers = [...]string{"name", "arguments", "task", "inputResponses", "requestState", "_meta"}

// callVariables returns the initial variables of a call's task, nil if there are none.
func callVariables(c *rpc.Caller) (json.RawMessage, error) {
	if len(c.Meta.Variables) == 0 {
		return nil, nil
	}
	err := tasks.CheckVariables(c.Meta.Variables)
	variables := json.RawMessage(nil)
	if err == nil {
		variables, err = tasks.MergeVariables(nil, c.Meta.Variables)
	}
	if refused, ok := errors.AsType[*rpc.Error](err); ok {
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "params._meta[%q]: %s", mcp.MetaVariables, refused.Message)
	}
	return variables, err
}

// ttl reads the ttl that a client asks for, in milliseconds; 0 if it asks for none. null asks for the longest
// one.
func ttl(t *mcp.TaskMetadata) (time.Duration, error) {
	const longest = time.Duration(math.MaxInt64)
	if len(t.TTL) == 0 {
		return 0, nil
	}
	if string(t.TTL) == "null" {
		return longest, nil
	}
	var ms float64
	if err := json.Unmarshal(t.TTL, &ms); err != nil || ms < 0 {
		return 0, rpc.Errorf(mcp.CodeInvalidParams, "params.task.ttl must be a number of milliseconds, 0 or more, or null")
	}
	if ms > float64(longest/time.Millisecond) {
		return longest, nil
	}
	return max(time.Duration(ms*float64(time.Millisecond)), 1), nil // at least 1, since a ttl was asked for
}
