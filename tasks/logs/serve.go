package logs

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"

	"runnel/internal/signal"
	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
)

// Serve adds the resources methods and subscriptions/listen to srv.
func Serve(srv *rpc.Server, runner *run.Runner, o Options) {
	s := &server{runner: runner, o: o}
	srv.Declare(func(_ *rpc.Caller, caps *mcp.ServerCapabilities) {
		caps.Resources = &mcp.ResourcesCapability{Subscribe: true}
	})
	srv.Handle(rpc.Handshake, "resources/list", s.listResources)
	srv.Handle(rpc.Handshake, "resources/templates/list", s.listTemplates)
	srv.Handle(rpc.Handshake, "resources/read", s.readResource)
	srv.Handle(rpc.Handshake, "resources/subscribe", s.subscribe)
	srv.Handle(rpc.Handshake, "resources/unsubscribe", s.unsubscribe)
	srv.Handle(rpc.Stateless, "resources/list", s.listResources)
	srv.Handle(rpc.Stateless, "resources/templates/list", s.listTemplates)
	srv.Handle(rpc.Stateless, "resources/read", s.readResource)
	srv.Handle(rpc.Stateless, "subscriptions/listen", s.listen)
}

// The resources of the stateless era say how long they may be cached (2026-07-28 server/utilities/caching).

// logTTL is how long the log of a task that has ended may be cached: it does not change, but is deleted with
// its task.
const logTTL = time.Minute

// templatesTTL is how long the list of templates may be cached: runnel has one template, which never changes.
const templatesTTL = time.Minute

// pageTTL is how long the page of the app may be cached: it changes only with runnel's version.
const pageTTL = time.Minute

// private returns the hints for a resource of an owner; nil in the handshake era.
func private(c *rpc.Caller, ttl time.Duration) *mcp.Cacheable {
	if c.Era != rpc.Stateless {
		return nil
	}
	return &mcp.Cacheable{TTLMs: ttl.Milliseconds(), CacheScope: "private"}
}

// templateHints returns the hints for the list of templates; nil in the handshake era.
func (s *server) templateHints(c *rpc.Caller, others bool) *mcp.Cacheable {
	hints := mcp.Cacheable{TTLMs: templatesTTL.Milliseconds(), CacheScope: "public"}
	if others {
		hints = s.o.Others.Hints()
	}
	if c.Era != rpc.Stateless {
		return nil
	}
	return &hints
}

// Options of Serve.
type Options struct {
	Deliver partials.DeliverOptions // how output is delivered on a subscription
	Tools   *signal.Broadcast       // changes of the list of tools
	Page    *Page                   // the page of the app; nil = none
	Others  Others                  // resources of other servers; nil = none
}

// Page is the page of an app, a resource for clients that show apps.
type Page struct {
	Entry    mcp.Resource           // of resources/list
	Contents func() json.RawMessage // those of resources/read
}

// isPage reports whether a URI is that of the page, and the client c can show it.
func (s *server) isPage(c *rpc.Caller, uri string) bool {
	return s.o.Page != nil && uri == s.o.Page.Entry.URI && c.ShowsApps()
}

// server answers requests about resources and subscriptions.
type server struct {
	runner *run.Runner
	o      Options
}

// logWatch is one subscription of a client to a resource. That to a log ends with a last notification when
// the task ends, when it is cancelled, or with the runner.
type logWatch struct{ cancel context.CancelFunc }

// Others has the resources of other servers.
type Others interface {
	// Meet gets the client that asks, and reports whether there are other servers. Otherwise no other method
	// is called.
	Meet(c *rpc.Caller) bool

	// Resources and Templates return a page of entries. Ours reports whether one of them has returned a
	// cursor; "" is the first page.
	Resources(ctx context.Context, c *rpc.Caller, cursor string) (page []json.RawMessage, next string)
	Templates(ctx context.Context, c *rpc.Caller, cursor string) (page []json.RawMessage, next string)
	Ours(cursor string) bool
	// Hints returns how long a list may be cached (2026-07-28 server/utilities/caching).
	Hints() mcp.Cacheable

	// Read answers resources/read. Subscribe calls tell, which must neither wait nor keep what it gets, with
	// the params of each notifications/resources/updated until stop is called.
	Read(ctx context.Context, c *rpc.Caller, uri string, params json.RawMessage) (json.RawMessage, error)
	Subscribe(ctx context.Context, c *rpc.Caller, uri string,
		tell func(params json.RawMessage)) (stop func(), err error)

	// Changes announces changes of the lists of prompts and of resources.
	Changes() (prompts, resources *signal.Broadcast)
}

// hasOthers reports whether there are resources of other servers for the client c.
func (s *server) hasOthers(c *rpc.Caller) bool { return s.o.Others != nil && s.o.Others.Meet(c) }

// isForeign reports whether a URI is not one of runnel, and may be one of another server.
func (s *server) isForeign(c *rpc.Caller, uri string) bool {
	return uri != "" && len(uri) <= MaxURI && !s.isPage(c, uri) && !strings.HasPrefix(uri, tasks.LogPrefix) &&
		s.hasOthers(c)
}

// MaxURI is how long a URI may be, in bytes: answers repeat it.
const MaxURI = 4 << 10

// ParseURI reads a log's URI; id is "" if it is not one.
func ParseURI(uri string) (id string, after int64, err error) {
	path, query, _ := strings.Cut(uri, "?")
	id, ok := strings.CutPrefix(path, tasks.LogPrefix)
	if !ok {
		return "", 0, nil
	}
	if id, ok = strings.CutSuffix(id, tasks.LogSuffix); !ok || strings.ContainsAny(id, "/#") {
		return "", 0, nil
	}
	after, err = position(uri, query)
	return id, after, err
}

// parseFileURI reads the URI of a file that a task has made; id is "" if it is not one.
func parseFileURI(uri string) (id, name string, after int64, err error) {
	path, query, _ := strings.Cut(uri, "?")
	rest, ok := strings.CutPrefix(path, tasks.LogPrefix)
	id, name, found := strings.Cut(rest, tasks.FileInfix)
	if !ok || !found || strings.ContainsAny(id, "/#") {
		return "", "", 0, nil
	}
	if name, err = url.PathUnescape(name); err != nil {
		return "", "", 0, rpc.Errorf(mcp.CodeInvalidParams,
			"%.200q: the name of the file cannot be read", uri)
	}
	after, err = position(uri, query)
	return id, name, after, err
}

// position reads the query of a URI.
func position(uri, query string) (after int64, err error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return 0, rpc.Errorf(mcp.CodeInvalidParams, "%.200q: the query cannot be read", uri)
	}
	if values.Has("after") {
		if after, err = strconv.ParseInt(values.Get("after"), 10, 64); err != nil || after < 0 {
			return 0, rpc.Errorf(mcp.CodeInvalidParams, "after must be a position: 0, or what _meta[%q] said",
				mcp.MetaNext)
		}
	}
	return after, nil
}

// NotFound is the error for a resource that does not exist, has expired or is another owner's: "Resource not
// found: -32002", and -32602 since 2026-07-28.
// Use it for every resource, so that nothing reveals those of other owners.
func NotFound(c *rpc.Caller, uri string) *rpc.Error {
	code := mcp.CodeResourceNotFound
	if c.Era == rpc.Stateless {
		code = mcp.CodeInvalidParams
	}
	return &rpc.Error{Code: code, Message: "resource not found: it is unknown or has expired",
		Data: mcp.ResourceParams{URI: uri}}
}
