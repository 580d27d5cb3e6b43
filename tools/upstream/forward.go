package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"path"
	"strings"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/logs"
	"runnel/tasks/run"
	"runnel/tools"
	"runnel/tools/remote"
	"runnel/tools/secrets"
)

// forward passes a request on to a server, and its answer back.
func (s *Set) forward(ctx context.Context, c *rpc.Caller, u *Server, method string,
	params json.RawMessage) (json.RawMessage, error) {
	hide := u.secrets.Set()
	var result json.RawMessage
	l, err := s.enter(ctx, u, func(l *link) (ran bool, err error) {
		defer l.silence.owe()()
		result, err = l.forwards.do(ctx, c, l.client, method, params, hide)
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
		return nil, &rpc.Error{Code: mcp.CodeInternalError,
			Message: hide.String(u.failure(l.why(err)).Error())}
	}
	wire = run.HideError(hide, wire)
	if wire.Code == mcp.CodeResourceNotFound && strings.HasPrefix(method, "resources/") &&
		c.Era == rpc.Stateless && l.client.Era() == rpc.Handshake {
		// The code is that of logs.NotFound.
		wire = &rpc.Error{Code: mcp.CodeInvalidParams, Message: wire.Message, Data: wire.Data}
	}
	return nil, wire
}

// do sends a request. If a server of the stateless era asks something first, a session is asked; a client of
// the stateless era gets the questions as its answer, and answers them with its next request.
func do(ctx context.Context, c *rpc.Caller, client *rpc.Client, method string, params json.RawMessage,
	hide *secrets.Set) (json.RawMessage, error) {
	rounds := 0
	send := func(params json.RawMessage) (result json.RawMessage, asks bool, err error) {
		if rounds++; rounds > maxRounds {
			return nil, false, errors.New("it asks without end")
		}
		result, err = client.Do(ctx, &rpc.Request{Method: method, Params: params,
			Capabilities: capabilities(c)})
		return result, c.Era == rpc.Handshake &&
			rawjson.StringMember(result, "resultType") == string(mcp.ResultInputRequired), err
	}
	return remote.Rounds(ctx, params,
		send, func(mcp.InputRequest) bool { return true }, func(ctx context.Context,
			q mcp.InputRequest) (json.RawMessage, error) {
			return tools.Request(ctx, c, q.Method, hide.JSON(toClient(q.Params)))
		})
}

// maxRounds limits how often a request is sent: a client may answer a server's questions for ever, without a
// person.
const maxRounds = 16

// dressForwarded converts a result of either era to the client's version.
func dressForwarded(c *rpc.Caller, result json.RawMessage, method string) json.RawMessage {
	if !rawjson.IsObject(result) {
		return result
	}
	result = withoutMeta(result, mcp.MetaServerInfo)
	if c.Era == rpc.Handshake {
		for _, member := range []string{"resultType", "ttlMs", "cacheScope"} {
			if rawjson.Member(result, member) != nil {
				result = rawjson.WithMember(result, member, nil)
			}
		}
		return result
	}
	if method == "resources/read" && rawjson.Member(result, "ttlMs") == nil &&
		rawjson.StringMember(result, "resultType") != string(mcp.ResultInputRequired) {
		result = rawjson.WithMember(rawjson.WithMember(result, "ttlMs", 0), "cacheScope", "private")
	}
	return result
}

// other passes on a request with a method that runnel does not know.
func (s *Set) other(ctx context.Context, c *rpc.Caller, method string, params json.RawMessage) (any, error) {
	u := s.knows(ctx, c, method)
	if u == nil {
		return nil, rpc.Errorf(mcp.CodeMethodNotFound, "method not found: %.100q", method)
	}
	return s.forward(ctx, c, u, method, params)
}

// maxNotices bounds the notifications that wait for a server to start.
const maxNotices = 64

// otherNotice passes on a notification that roots have changed, and one with a method that runnel does not
// know. A server that does not run is started for the latter.
func (s *Set) otherNotice(c *rpc.Caller, method string, params json.RawMessage) {
	// Fails only when the server is gone.
	notify := func(l *link) { _ = l.client.TryNotify(method, toServer(params, l.client.Era())) }
	u := s.declares(method)
	switch {
	case method == "notifications/roots/list_changed":
		if c.Version != nil { // in a session
			s.rootsChanged()
		}
	case u == nil:
	case u.up() != nil:
		notify(u.up())
	case s.notices.Add(1) > maxNotices:
		s.notices.Add(-1)
	default:
		s.Meet(c)
		s.runs.Go(func() {
			defer s.notices.Add(-1)
			// Fails only when the server is gone.
			_, _ = s.enter(u.ctx, u, func(l *link) (ran bool, err error) { notify(l); return true, nil })
		})
	}
}

// knows returns the server for a method that runnel does not know, nil if there is none.
func (s *Set) knows(ctx context.Context, c *rpc.Caller, method string) *Server {
	s.Meet(c)
	if u := s.declares(method); u != nil || strings.HasPrefix(method, "tasks/") {
		return u
	}
	s.needFresh(ctx, c, initialize, true, s.unknown)
	return s.declares(method)
}

// declares returns the server that is wrapped. Among several upstreams, it is the only one that declares a
// capability or an extension named like the beginning of the method, such as io.modelcontextprotocol/skills
// for skills/list. The tasks are runnel's own.
func (s *Set) declares(method string) (only *Server) {
	method = strings.TrimPrefix(method, "notifications/")
	name, _, _ := strings.Cut(method, "/")
	for _, u := range s.all() {
		switch {
		case name == "tasks":
		case u.name == WrappedName:
			return u
		case u.declares(s, name) && only != nil:
			return nil
		case u.declares(s, name):
			only = u
		}
	}
	return only
}

// declares reports whether a server declares a capability or an extension by its name or the last part of it.
func (u *Server) declares(s *Set, name string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if u.catalog == nil {
		return false
	}
	caps := u.catalog.Declared
	for _, among := range [][]byte{caps, rawjson.Member(caps, "experimental"),
		rawjson.Member(caps, "extensions")} {
		for it := rawjson.Over(among); it.Next(); {
			if path.Base(string(it.Name)) == name {
				return true
			}
		}
	}
	return false
}

// serversOf returns the servers that may have a URI or a template, the most likely first.
func (s *Set) serversOf(ctx context.Context, c *rpc.Caller, uri string) (list []*Server) {
	s.Meet(c)
	find := func() *Server {
		if strings.HasPrefix(uri, tasks.LogPrefix) { // the templates of all runnels are alike
			return nil
		}
		return s.joined().resource(uri)
	}
	u := find()
	if servers := s.all(); u == nil && len(servers) == 1 {
		s.needFresh(ctx, c, initialize, true, s.unknown) // no list is needed to find it
	} else if u == nil {
		s.needList(ctx, c, resourceList) // a server whose lists are unknown may have it
		s.needList(ctx, c, templateList)
		u = find()
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

// atOwner calls do for the server that has a resource, or, if that is not known, for each that may have it
// until one succeeds.
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
func (s *Set) forwardURI(ctx context.Context, c *rpc.Caller, uri, method string,
	params json.RawMessage) (result json.RawMessage, err error) {
	err = s.atOwner(ctx, c, uri, func(u *Server) (err error) {
		result, err = s.forward(ctx, c, u, method, params)
		return err
	})
	return result, err
}

// Subscribe subscribes to a resource at the server that has it.
func (s *Set) Subscribe(ctx context.Context, c *rpc.Caller, uri string,
	tell func(json.RawMessage)) (stop func(), err error) {
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
