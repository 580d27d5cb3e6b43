package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/logs"
	"runnel/tools"
	"runnel/tools/remote"
	"runnel/tools/secrets"
)

// forward passes a request on to a server, and its answer back.
func (s *Set) forward(ctx context.Context, c *rpc.Caller, u *Server, method string, params json.RawMessage) (json.RawMessage, error) {
	hide := u.secrets.Set()
	var result json.RawMessage
	l, err := s.enter(ctx, u, func(l *link) (ran bool, err error) {
		defer l.silence.owe()()
		result, err = do(ctx, c, l.client, method, forwarded(params), hide)
		return false, err
	})
	switch {
	case l == nil:
		return nil, &rpc.Error{Code: mcp.CodeInternalError, Message: err.Error()}
	case err == nil:
		return hide.JSON(dressForwarded(c, result, method)), nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	wire, ok := errors.AsType[*rpc.Error](err)
	if !ok {
		return nil, &rpc.Error{Code: mcp.CodeInternalError, Message: hide.String(u.failure(l.why(err)).Error())}
	}
	passed := *tasks.HideError(hide, wire)
	switch {
	case wire.Code == mcp.CodeResourceNotFound && strings.HasPrefix(method, "resources/") && c.Era == rpc.Stateless:
		passed.Code = mcp.CodeInvalidParams // as in logs.NotFound
	case wire.Code == mcp.CodeResourceNotFound:
	case ownCode(wire.Code) && wire.Code != mcp.CodeMethodNotFound:
		passed.Code, passed.Data = mcp.CodeInternalError, nil
	}
	return nil, &passed
}

// do sends a request. If a server of the stateless era asks something first, a session is asked; a client of the stateless era gets the
// questions as its answer, and answers them with its next request.
func do(ctx context.Context, c *rpc.Caller, client *rpc.Client, method string, params json.RawMessage, hide *secrets.Set) (json.RawMessage, error) {
	rounds := 0
	send := func(params json.RawMessage) (result json.RawMessage, asks bool, err error) {
		if rounds++; rounds > maxRounds {
			return nil, false, errors.New("it asks without end")
		}
		result, err = client.Do(ctx, &rpc.Request{Method: method, Params: params, Capabilities: askable(c)})
		return result, c.Era == rpc.Handshake && rawjson.StringMember(result, "resultType") == string(mcp.ResultInputRequired), err
	}
	return remote.Rounds(ctx, params, send, func(mcp.InputRequest) bool { return true }, func(ctx context.Context, q mcp.InputRequest) (json.RawMessage, error) {
		return tools.Request(ctx, c, q.Method, hide.JSON(forwarded(q.Params)))
	})
}

// maxRounds limits how often a request is sent: a client may answer a server's questions for ever, without a person.
const maxRounds = 16

// askable returns the capabilities of a client that a server may use in one request.
func askable(c *rpc.Caller) *mcp.ClientCapabilities {
	return &mcp.ClientCapabilities{Elicitation: c.Capabilities.Elicitation, Roots: c.Capabilities.Roots, Sampling: c.Capabilities.Sampling}
}

// dressForwarded converts a result of either era to the client's version.
func dressForwarded(c *rpc.Caller, result json.RawMessage, method string) json.RawMessage {
	if !rawjson.IsObject(result) {
		return result
	}
	if rawjson.Member(rawjson.Member(result, "_meta"), mcp.MetaServerInfo) != nil {
		result = withoutMeta(result, func(name string, _ json.RawMessage) bool { return name == mcp.MetaServerInfo })
	}
	if c.Era == rpc.Handshake {
		for _, member := range []string{"resultType", "ttlMs", "cacheScope"} {
			if rawjson.Member(result, member) != nil {
				result = rawjson.WithMember(result, member, nil)
			}
		}
		return result
	}
	if method == "resources/read" && rawjson.Member(result, "ttlMs") == nil && rawjson.StringMember(result, "resultType") != string(mcp.ResultInputRequired) {
		result = rawjson.WithMember(rawjson.WithMember(result, "ttlMs", 0), "cacheScope", "private")
	}
	return result
}

// serversOf returns the servers that may have a URI or a template, the most likely first.
func (s *Set) serversOf(ctx context.Context, c *rpc.Caller, uri string) (list []*Server) {
	s.Meet(c)
	u := s.joined().resource(uri)
	if servers := s.all(); u == nil && len(servers) == 1 {
		s.needFresh(ctx, c, initialize, true, s.unknown) // no list is needed to find it
	} else if u == nil {
		s.needList(ctx, c, resourceList) // a server whose lists are unknown may have it
		s.needList(ctx, c, templateList)
		u = s.joined().resource(uri)
	}
	if u != nil {
		return []*Server{u}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, u := range s.servers {
		if u.catalog != nil && u.catalog.Capabilities.Resources != nil {
			list = append(list, u)
		}
	}
	return list
}

// atOwner calls do for the server that has a resource, or, if that is not known, for each that may have it until one succeeds.
func (s *Set) atOwner(ctx context.Context, c *rpc.Caller, uri string, do func(*Server) error) (err error) {
	err = logs.NotFound(c, uri)
	for _, u := range s.serversOf(ctx, c, uri) {
		if err = do(u); err == nil || ctx.Err() != nil {
			break
		}
	}
	return err
}

// forwardURI passes on a request that is about a resource.
func (s *Set) forwardURI(ctx context.Context, c *rpc.Caller, uri, method string, params json.RawMessage) (result json.RawMessage, err error) {
	err = s.atOwner(ctx, c, uri, func(u *Server) (err error) {
		result, err = s.forward(ctx, c, u, method, params)
		return err
	})
	return result, err
}

// Subscribe subscribes to a resource at the server that has it.
func (s *Set) Subscribe(ctx context.Context, c *rpc.Caller, uri string, tell func(json.RawMessage)) (stop func(), err error) {
	err = s.atOwner(ctx, c, uri, func(u *Server) error {
		l, err := s.enter(ctx, u, func(l *link) (ran bool, err error) {
			stop, err = u.subs.add(ctx, l.client, uri, tell)
			return false, err
		})
		if l == nil {
			return &rpc.Error{Code: mcp.CodeInternalError, Message: err.Error()}
		}
		return err
	})
	return stop, err
}
