package logs

import (
	"context"
	"encoding/json"
	"strings"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// Options of Serve.
type Options struct {
	Pump   partials.PumpOptions // how output is delivered on a subscription
	Tools  *rpc.Broadcast       // changes of the list of tools
	Page   *Page                // the page of the app; nil = none
	Others Others               // resources of other servers; nil = none
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
	runner *tasks.Runner
	o      Options
}

// logWatch is one client's wish to be told when a resource has changed. The goroutine of a log's ends when the task has, with a last
// notification, when it is taken back, or with the runner.
type logWatch struct{ cancel context.CancelFunc }

// Others has resources that are not logs: those of other servers.
type Others interface {
	// Meet says who asks, and reports whether there are other servers. Without them nothing else is called.
	Meet(c *rpc.Caller) bool

	// Resources and Templates return a page of entries. Ours reports whether a cursor is one of theirs; "" is the first page.
	Resources(ctx context.Context, c *rpc.Caller, cursor string) (page []json.RawMessage, next string)
	Templates(ctx context.Context, c *rpc.Caller, cursor string) (page []json.RawMessage, next string)
	Ours(cursor string) bool
	// Hints say how long a list may be kept (2026-07-28 server/utilities/caching).
	Hints() mcp.Cacheable

	// Read answers resources/read. Subscribe calls tell, which must neither wait nor keep what it gets, with the params of each
	// notifications/resources/updated until stop is called.
	Read(ctx context.Context, c *rpc.Caller, uri string, params json.RawMessage) (json.RawMessage, error)
	Subscribe(ctx context.Context, c *rpc.Caller, uri string, tell func(params json.RawMessage)) (stop func(), err error)

	// Changes are those of the lists of prompts and of resources.
	Changes() (prompts, resources *rpc.Broadcast)
}

// hasOthers reports whether there are resources of other servers. c asks.
func (s *server) hasOthers(c *rpc.Caller) bool { return s.o.Others != nil && s.o.Others.Meet(c) }

// isForeign reports whether a URI is not runnel's own, and may be another server's.
func (s *server) isForeign(c *rpc.Caller, uri string) bool {
	return uri != "" && len(uri) <= MaxURI && !s.isPage(c, uri) && !strings.HasPrefix(uri, tasks.LogPrefix) && s.hasOthers(c)
}
