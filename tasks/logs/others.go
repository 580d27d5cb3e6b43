package logs

import (
	"context"
	"encoding/json"
	"strings"

	"runnel/internal/signal"
	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
)

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
