package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
)

// callParams reads the params of a call. A member that the version does not know is ignored, whatever it holds: "Receivers that
// do not declare the task capability [...] MUST process requests of that type normally, ignoring any task-augmentation metadata"
// (2025-11-25 basic/utilities/tasks), and since 2026-07-28 "servers MUST ignore it (treat the field as unknown)" (SEP-2663).
func callParams(v *mcp.Version, params json.RawMessage) (*mcp.CallToolParams, error) {
	p, ok := plainCallParams(params)
	if ok {
		return p, nil
	}
	if !rawjson.IsObject(params) {
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "params must be an object with a name and arguments")
	}
	if err := checkCallMembers(params); err != nil {
		return nil, err
	}
	p = &mcp.CallToolParams{}
	var err error
	rawjson.EachMember(params, func(name, value []byte) bool {
		switch member := string(name); {
		case member == "name":
			err = readParam("params."+member, value, &p.Name)
		case member == "arguments":
			p.Arguments = value
		case member == "task" && v.Tasks:
			err = readParam("params."+member, value, &p.Task)
		case member == "inputResponses" && v.Stateless:
			err = readParam("params."+member, value, &p.InputResponses)
		case member == "requestState" && v.Stateless:
			err = readParam("params."+member, value, &p.RequestState)
		}
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	if p.Name == "" {
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "params.name must be a tool's name")
	}
	switch {
	case len(p.Arguments) == 0 || string(p.Arguments) == "null":
		p.Arguments = json.RawMessage("{}")
	case p.Arguments[0] != '{':
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "params.arguments must be an object")
	}
	return p, nil
}

// plainCallParams reads the params of most calls, a name and an object of arguments beside _meta, without
// encoding/json, which took a sixth of a small call's time. ok is false for all others.
func plainCallParams(params json.RawMessage) (p *mcp.CallToolParams, ok bool) {
	if len(params) == 0 || params[0] != '{' {
		return nil, false
	}
	p, ok = &mcp.CallToolParams{}, true
	meta := false
	rawjson.EachMember(params, func(name, value []byte) bool {
		switch {
		case string(name) == "_meta" && !meta:
			meta = true
		case string(name) == "name" && p.Name == "" && len(value) > len(`""`) && value[0] == '"' && bytes.IndexByte(value, '\\') < 0:
			p.Name = string(value[1 : len(value)-1])
		case string(name) == "arguments" && p.Arguments == nil && value[0] == '{':
			p.Arguments = value
		default:
			ok = false
		}
		return ok
	})
	return p, ok && p.Name != "" && p.Arguments != nil
}

// checkCallMembers refuses what one reader of JSON takes otherwise than another: "Name" for "name", and the second of two. Who
// looks at calls on their way, to let some tools through and not others, must see the tool that is called.
func checkCallMembers(params json.RawMessage) (err error) {
	seen := map[string]bool{}
	rawjson.EachMember(params, func(name, _ []byte) bool {
		for _, known := range []string{"name", "arguments", "task", "inputResponses", "requestState", "_meta"} {
			switch {
			case !strings.EqualFold(known, string(name)):
			case known != string(name):
				err = rpc.Errorf(mcp.CodeInvalidParams, "params.%s is written %q", name, known)
			case seen[known]:
				err = rpc.Errorf(mcp.CodeInvalidParams, "params.%s is there twice", known)
			default:
				seen[known] = true
			}
		}
		return err == nil
	})
	return err
}

// readParam reads the params, or a member of them, and says where they hold what does not belong there.
func readParam(name string, value []byte, to any) error {
	err := rawjson.Unmarshal(value, to)
	if err == nil {
		return nil
	}
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return rpc.Errorf(mcp.CodeInvalidParams, "%s cannot be read", name)
	}
	if wrong.Field != "" {
		name += "." + wrong.Field
	}
	return rpc.Errorf(mcp.CodeInvalidParams, "%s: a JSON %s does not belong there", name, wrong.Value)
}

// callVariables are the variables that a call's task begins with, nil if there are none.
func callVariables(c *rpc.Caller) (json.RawMessage, error) {
	if len(c.Meta.Variables) == 0 {
		return nil, nil
	}
	variables, err := tasks.MergeVariables(nil, c.Meta.Variables)
	if err != nil {
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "params._meta[%q]: %v", mcp.MetaVariables, err)
	}
	return variables, nil
}

// ttl reads the ttl that a client asks for, in milliseconds; 0 if it asks for none. null asks for the longest.
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
	return max(time.Duration(ms*float64(time.Millisecond)), 1), nil // 1: asked for, if only for next to nothing
}
