package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"runnel/internal/signal"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks/run"
	"runnel/tools"
)

// Everything that servers have beside tools is passed on unchanged: a request goes to the server whose
// prompt, resource or template it names, and its answer comes back. None of these requests is a task.
//
//	request                                  goes to
//	prompts/get, completion/complete         the upstream that lists the prompt; its prefix is taken off
//	resources/read, subscribe, unsubscribe,  the upstream that lists the URI, else the one whose template fits best, else each that has
//	completion/complete of a template        resources, in turn
//	logging/setLevel                         every upstream that logs
//	any method that runnel does not know     the upstream that declares it (Set.declares)
//
//	from the server                          goes to
//	notifications/message                    the session; the client of the call, if it asked for log messages with it (2026-07-28)
//	notifications/resources/updated          who subscribed
//	list_changed                             all who listen, when the lists have been read again, at most once a second
//	progress of these requests               the client, with its own token
//	requests of any method                   the client of the call; outside of calls the session, or the next call of a client that has none
//	any other notification                   the session
//
// Not passed on are notifications of methods that runnel does not know to a client of 2026-07-28, which has
// no session.

// listTTL is how long clients may keep a complete list. Clients that listen are notified of changes at once.
const listTTL = time.Minute

// WrappedName is the name of the upstream that runnel wraps.
const WrappedName = "wrapped"

// Serve is tools.Serve for the tools of the set, and adds the methods that only upstreams need. With wraps,
// the server stands in front of the upstream named WrappedName, and introduces itself as that one.
func (s *Set) Serve(srv *rpc.Server, runner *run.Runner, wraps bool, o tools.ServeOptions) *tools.Starter {
	o.Source = s
	o.Others = s
	s.beat = o.Heartbeat
	starter := tools.Serve(srv, s.Tools, runner, o)
	srv.Declare(s.declare)
	if wraps {
		srv.Prepare(func(ctx context.Context, c *rpc.Caller) {
			s.Meet(c)
			ctx, cancel := context.WithTimeout(ctx, s.preparation())
			defer cancel()
			s.needFresh(ctx, nil, initialize, true, s.unknown)
		})
	}
	srv.Introduce(func(c *rpc.Caller, info mcp.Implementation,
		instructions string) (mcp.Implementation, string) {
		s.Meet(c)
		return s.introduce(info, instructions, wraps)
	})
	srv.OnSession(func(c *rpc.Caller) {
		s.session.start(c)
		if !s.Meet(c) {
			return // nothing was declared that could change, even if upstreams join later
		}
		tools.Announce(runner, c, "notifications/prompts/list_changed", &s.promptChanges)
		tools.Announce(runner, c, "notifications/resources/list_changed", &s.resourceChanges)
	})
	for _, era := range []rpc.Era{rpc.Handshake, rpc.Stateless} {
		s.handle(srv, era, "prompts/list", s.listPrompts)
		s.handle(srv, era, "prompts/get", s.getPrompt)
		s.handle(srv, era, "completion/complete", s.complete)
	}
	s.handle(srv, rpc.Handshake, "logging/setLevel", s.setLevel)
	srv.HandleOthers(s.other, s.otherNotice)
	return starter
}

// handle registers the handler of a method that only exists with upstreams.
func (s *Set) handle(srv *rpc.Server, era rpc.Era, method string, h rpc.Handler) {
	srv.Handle(era, method, func(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
		if !s.Meet(c) {
			return nil, rpc.Errorf(mcp.CodeMethodNotFound, "method not found: %q", method)
		}
		return h(ctx, c, params)
	})
}

// rootsChanged notifies the servers that the client's roots have changed.
func (s *Set) rootsChanged() {
	for _, u := range s.all() {
		if l := u.up(); l != nil && u.showsRoots(l) {
			_ = l.client.Notify("notifications/roots/list_changed", nil) // fails only when the server is gone
		}
	}
}

// setLevel answers logging/setLevel for all servers, including those that start later.
func (s *Set) setLevel(ctx context.Context, _ *rpc.Caller, params json.RawMessage) (any, error) {
	if err := s.session.setLevel(rawjson.StringMember(params, "level")); err != nil {
		return nil, err
	}
	for _, u := range s.all() {
		if l := u.up(); l != nil {
			s.session.tellLevel(ctx, l.client, u.log)
		}
	}
	return struct{}{}, nil
}

// declare adds the capabilities of the upstreams, including those that an upstream may turn out to have.
// Extensions are of 2026-07-28; a client of before has them if it declares some itself. Those of runnel are
// never an upstream's.
func (s *Set) declare(c *rpc.Caller, caps *mcp.ServerCapabilities) {
	takesExtensions := c.Version.Stateless || c.Capabilities.Extensions != nil
	s.recall()
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, u := range s.servers {
		unknown := u.catalog == nil && !u.told
		var has mcp.ServerCapabilities
		if u.catalog != nil {
			has = u.catalog.Capabilities
		}
		if unknown || has.Prompts != nil {
			caps.Prompts = &mcp.ListCapability{ListChanged: true}
		}
		if unknown || has.Completions != nil {
			caps.Completions = &mcp.Present{}
		}
		if unknown || has.Logging != nil {
			caps.Logging = &mcp.Present{}
		}
		for it := rawjson.Over(declared(u.catalog)); it.Next(); {
			switch name := string(it.Name); name {
			case "tools", "prompts", "resources", "completions", "logging", "tasks": // runnel has its own
			case "extensions":
				for ext := rawjson.Over(it.Value); takesExtensions && ext.Next(); {
					switch name := string(ext.Name); {
					case name == mcp.ExtensionTasks, name == mcp.ExtensionTaskPartials,
						caps.Extensions[name] != nil:
					default:
						caps.Extensions = with(caps.Extensions, name, ext.Value)
					}
				}
			default:
				caps.Others = with(caps.Others, name, rawjson.Merge(it.Value, caps.Others[name]))
			}
		}
		if caps.Resources != nil {
			caps.Resources.ListChanged = true
		}
	}
}

// declared returns the capabilities of a server as it wrote them, nil if they are unknown.
func declared(c *catalog) json.RawMessage {
	if c == nil {
		return nil
	}
	return c.Declared
}

func with(members map[string]json.RawMessage, name string, value json.RawMessage) map[string]json.RawMessage {
	if members == nil {
		members = map[string]json.RawMessage{}
	}
	members[name] = value
	return members
}

// introduce names the wrapped server, if it is known, and joins the instructions of all servers.
func (s *Set) introduce(info mcp.Implementation, instructions string,
	wraps bool) (mcp.Implementation, string) {
	if s.Missing != nil {
		instructions = strings.TrimSpace(instructions + "\n\n" + s.Missing())
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, u := range s.servers {
		if u.catalog == nil {
			continue
		}
		text, own := u.catalog.Instructions, wraps && u.name == WrappedName
		if own && u.catalog.Info.Name != "" {
			info = u.catalog.Info
		}
		if text != "" && !own {
			text = u.title() + ":\n" + text
		}
		if text != "" && instructions != "" {
			text = "\n\n" + text
		}
		instructions += text
	}
	return info, instructions
}

func (s *Set) listPrompts(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
	cursor, err := rpc.Cursor(params)
	if err != nil {
		return nil, err
	}
	if cursor != "" && !s.Ours(cursor) {
		return nil, rpc.ErrCursor
	}
	var result struct {
		Prompts    []json.RawMessage `json:"prompts"`
		NextCursor string            `json:"nextCursor,omitempty"`
		*mcp.Cacheable
	}
	s.needList(ctx, c, promptList)
	result.Prompts, result.NextCursor = entryPage(s.joined()[promptList], cursor)
	if c.Era == rpc.Stateless {
		hints := s.Hints()
		result.Cacheable = &hints
	}
	return result, nil
}

// Resources returns a page of the resources of all upstreams, and starts these first.
func (s *Set) Resources(ctx context.Context, c *rpc.Caller,
	cursor string) (page []json.RawMessage, next string) {
	s.needList(ctx, c, resourceList)
	return entryPage(s.joined()[resourceList], cursor)
}

// Templates returns a page of the resource templates of all upstreams, and starts these first.
func (s *Set) Templates(ctx context.Context, c *rpc.Caller,
	cursor string) (page []json.RawMessage, next string) {
	s.needList(ctx, c, templateList)
	return entryPage(s.joined()[templateList], cursor)
}

// Ours reports whether a cursor came from Resources or Templates.
func (s *Set) Ours(cursor string) bool {
	_, ok := readShown(cursor)
	return ok
}

// Read answers resources/read.
func (s *Set) Read(ctx context.Context, c *rpc.Caller, uri string,
	params json.RawMessage) (json.RawMessage, error) {
	return s.forwardURI(ctx, c, uri, "resources/read", params)
}

// Changes returns the broadcasts for changes of the lists of prompts and of resources.
func (s *Set) Changes() (prompts, resources *signal.Broadcast) {
	return &s.promptChanges, &s.resourceChanges
}

// Hints returns the caching hints for a list that upstreams add to.
func (s *Set) Hints() mcp.Cacheable {
	ttl := listTTL
	if !s.Whole() {
		ttl = 0
	}
	return mcp.Cacheable{TTLMs: ttl.Milliseconds(), CacheScope: "private"}
}

// forwardPrompt passes on a request about a prompt to the server that has it; params makes the params from
// the prompt's name there.
func (s *Set) forwardPrompt(ctx context.Context, c *rpc.Caller, name, method string,
	params func(theirs string) json.RawMessage) (json.RawMessage, error) {
	u := owner(s.joined()[promptList], name)
	if u == nil {
		s.needFresh(ctx, c, promptList, true, func(u *Server) bool { return u.mayHave(name) })
		u = owner(s.joined()[promptList], name)
	}
	if u == nil {
		unknown := fmt.Sprintf("unknown prompt: %.100q", name)
		if why := s.WhyMissing(name); why != "" {
			unknown += ", unless a server has it that is down: " + why
		}
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "%s", unknown)
	}
	return s.forward(ctx, c, u, method, params(name[len(u.config.Prefix):]))
}

func (s *Set) getPrompt(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
	result, err := s.forwardPrompt(ctx, c, rawjson.StringMember(params, "name"),
		"prompts/get", func(theirs string) json.RawMessage {
			return rawjson.WithMember(params, "name", theirs)
		})
	return result, err
}

// complete answers completion/complete: "ref" names a prompt, or the template of a resource.
func (s *Set) complete(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
	ref := rawjson.Member(params, "ref")
	switch rawjson.StringMember(ref, "type") {
	case "ref/prompt":
		return s.forwardPrompt(ctx, c, rawjson.StringMember(ref, "name"),
			"completion/complete", func(theirs string) json.RawMessage {
				return rawjson.WithMember(params, "ref", rawjson.WithMember(ref, "name", theirs))
			})
	case "ref/resource":
		return s.forwardURI(ctx, c, rawjson.StringMember(ref, "uri"), "completion/complete", params)
	}
	return nil, rpc.Errorf(mcp.CodeInvalidParams, `params.ref.type must be "ref/prompt" or "ref/resource"`)
}
