package upstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tools"
	"runnel/tools/config"
	"runnel/tools/remote"
)

// Server is another MCP server, whose tools stand among runnel's own.
//
// It starts when something of its own is needed, not before: some hosts start their servers only to see what they are. What it had
// when it ran last is known meanwhile (kept.go). It is started again, after a pause that grows, as its restart policy says. While it is
// down its tools stay in the list, and a call waits a little for it; when it is not to be started again, they leave the list.
type Server struct {
	*definition
	capabilities mcp.ClientCapabilities // those that it is told; set with remember
	remember     sync.Once

	ctx    context.Context // ends when the server is not wanted any more, or not started again; its cause says why
	end    context.CancelCauseFunc
	begin  sync.Once
	opened context.Context // after begin: ends when the tools are known, when the first start has failed, or when it takes too long
	settle context.CancelFunc
	busy   sync.RWMutex // read-locked by each call; retire takes it for good

	// Owned by the Set that it belongs to, and guarded by that one's lock.
	session *session        // set before it can be called
	subs    *subscriptions  // likewise
	told    bool            // it has said what it has, or it is not started again
	catalog *catalog        // its lists, or those of when it ran last; nil: not known, or it is not started again
	tools   []tools.Tool    // those that the config wants
	clashes map[string]bool // names that were taken, and warned of

	mu      sync.Mutex
	link    *link         // nil: it is being started, pauses before a start, or is over
	down    error         // why there is no link
	changed chan struct{} // closed when link changes
}

// New checks a configuration and makes the server of a name, which starts when its tools are needed first. What is wrong with it is a
// *config.Error.
func New(name string, conf config.Upstream, env config.Base, log zerolog.Logger) (*Server, error) {
	def, err := define(name, conf, env, log)
	if err != nil {
		return nil, err
	}
	u := &Server{
		definition:   def,
		capabilities: remote.Capabilities(true),
		session:      &session{},
		subs:         &subscriptions{log: def.log, byURI: map[string]*subscription{}},
		clashes:      map[string]bool{},
		changed:      make(chan struct{}),
		down:         errors.New("it has not started yet: try again later"),
	}
	u.ctx, u.end = context.WithCancelCause(context.Background())
	return u, nil
}

// Servers makes the servers that a config describes, sorted by name, but for those that workers run. They run in the directory of the config
// file, whatever env says of that.
func Servers(c *config.Config, env config.Base, log zerolog.Logger) (list []*Server, err error) {
	env.Dir = c.Dir()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.Upstreams)) {
		u, err := New(name, c.Upstreams[name], env, log)
		if err != nil {
			errs = append(errs, c.Locate(config.Join("upstreams", name), err))
			continue
		}
		if u.config.Runs == "" {
			list = append(list, u)
		}
	}
	return list, config.JoinErrors(errs)
}

// Probed is what a server said when it was tried by Probe.
type Probed struct {
	Server   mcp.Implementation
	Protocol string
	Tools    int // those that runnel would serve
	After    time.Duration
}

// Probe starts the server as a session would, asks for its tools, and ends it. The error says why it cannot be used.
func (u *Server) Probe(ctx context.Context, limit time.Duration) (Probed, error) {
	defer context.AfterFunc(ctx, u.stop)()
	defer u.stop()
	u.times.start = limit
	began := time.Now()
	l, has, err := u.start()
	if err != nil {
		return Probed{}, err
	}
	p := Probed{l.client.Server(), l.client.Version().Name, len(has.tools(u.definition, zerolog.Nop())), time.Since(began)}
	_ = l.client.Close() // how it ends is its own affair
	return p, nil
}

// stop ends the server.
func (u *Server) stop() { u.end(errors.New("runnel is shutting down, or its config has changed")) }

// retire ends the server when its last call has.
func (u *Server) retire() {
	go func() { // ends with the last call
		u.busy.Lock()
		u.stop()
	}()
}

// open lets who needs the server wait for it, for a while.
func (u *Server) open() {
	u.opened, u.settle = context.WithCancel(u.ctx)
	time.AfterFunc(u.times.list, func() {
		if u.opened.Err() == nil {
			u.log.Warn().Stringer("after", u.times.list).Msg("upstream has not answered initialize and tools/list yet: its tools are missing until it does")
			u.settle()
		}
	})
}

// run starts the server, again and again as the policy says, until it is not wanted any more. publish takes what it has; nil
// means nothing any more.
func (u *Server) run(publish func(*catalog)) {
	defer u.settle()
	for pause := u.times.pause; u.ctx.Err() == nil; pause = min(2*pause, u.times.longest) {
		began := time.Now()
		err := u.serve(publish)
		if u.ctx.Err() != nil {
			return
		}
		if !u.config.Restart.Again(err != errEnded) {
			u.log.Error().Err(err).Str("restart", string(u.config.Restart)).Msg("upstream has ended: its tools are gone")
			u.end(fmt.Errorf("%w; it is not started again (restart: %s)", err, u.config.Restart))
			publish(nil)
			return
		}
		if time.Since(began) > u.times.steady {
			pause = u.times.pause
		}
		u.log.Warn().Err(err).Stringer("pause", pause).Msg("upstream is down: it will be started again")
		u.connect(nil, err)
		u.settle()
		select {
		case <-time.After(pause):
		case <-u.ctx.Done():
		}
	}
}

// errEnded is how a server ends that nothing is wrong with.
var errEnded = errors.New("the server ended (exit code 0)")

// start starts or reaches the server and reads what it has.
func (u *Server) start() (*link, *catalog, error) {
	ctx, cancel := context.WithTimeoutCause(u.ctx, u.times.start, fmt.Errorf("it did not start within %v", u.times.start))
	defer cancel()
	l := newLink(u.definition, u.session, u.subs)
	err := l.dial(ctx, rpc.DialOptions{
		Info:           mcp.Implementation{Name: "runnel", Version: u.version},
		Capabilities:   u.capabilities,
		Log:            u.log,
		OnMessage:      func([]byte) { l.silence.seen.Add(1) },
		OnNotification: l.notification,
		OnRequest:      l.request,
	})
	if err != nil {
		return nil, nil, l.stderr.explain(err)
	}
	has, err := u.read(ctx, l)
	if err != nil {
		_ = l.client.Close()
		return nil, nil, l.stderr.explain(err)
	}
	return l, has, nil
}

// read reads what the server has.
func (u *Server) read(ctx context.Context, l *link) (*catalog, error) {
	ctx, cancel := context.WithTimeout(ctx, u.times.start)
	defer cancel()
	c, err := readCatalog(ctx, l.client, u.log)
	if s := u.secrets.Set(); s != nil && err == nil {
		c.hide(s)
	}
	return c, err
}

// serve starts the server once and returns how it has ended.
func (u *Server) serve(publish func(*catalog)) error {
	began := time.Now()
	l, has, err := u.start()
	if err != nil {
		return err
	}
	client := l.client
	publish(has)
	u.settle()
	u.connect(l, nil)
	u.log.Info().Str("server", client.Server().Name).Str("protocol", client.Version().Name).Int("tools", len(has.Tools)).
		Stringer("after", time.Since(began).Round(time.Millisecond)).Msg("upstream is up")
	var background sync.WaitGroup
	background.Go(func() { l.silence.watch(client, u.definition) })
	background.Go(l.listen)
	background.Go(func() {
		u.session.tellLevel(client.Context(), client, u.log)
		u.subs.renew(client)
	})
	u.relist(l, has, publish)
	reason := client.Err()
	u.connect(nil, errors.New("it is being stopped")) // before the calls on it end: who calls again then gets the next one
	if errors.Is(reason, errHung) {
		l.end(reason)
	}
	err = client.Close()
	background.Wait()
	switch {
	case errors.Is(reason, errHung):
		return reason
	case u.ctx.Err() != nil:
		err = errors.New("it was stopped")
	case err != nil:
		err = l.stderr.explain(err)
	case u.config.URL != "":
		err = reason
	default:
		err = errEnded
	}
	l.end(err)
	return err
}

// relist reads the lists again when they have changed, at most once a second, and a few times more, after
// pauses that grow, when one of them could not be read. It ends with the connection, or when the server is not wanted any more.
func (u *Server) relist(l *link, has *catalog, publish func(*catalog)) {
	for retry := u.times.relist; ; {
		var again <-chan time.Time // nil: the lists are whole
		if len(has.unread) > 0 && retry <= u.times.longest {
			again = time.After(retry)
			retry *= 2
		}
		select {
		case <-l.client.Context().Done():
			return
		case <-u.ctx.Done():
			return
		case <-l.relist:
		case <-again:
		}
		next, err := u.read(u.ctx, l)
		if err == nil {
			has = next
			publish(has)
		} else if l.client.Err() == nil && u.ctx.Err() == nil {
			u.log.Warn().Err(err).Msg("upstream: its lists cannot be read again")
		}
		select {
		case <-l.client.Context().Done():
		case <-u.ctx.Done():
		case <-time.After(u.times.relist):
		}
	}
}

// connect takes the connection, or why there is none.
func (u *Server) connect(l *link, down error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.link, u.down = l, down
	close(u.changed)
	u.changed = make(chan struct{})
}

// up is the connection, nil if there is none.
func (u *Server) up() *link {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.link
}

// connected waits until the server is there, for a while.
func (u *Server) connected(ctx context.Context) (*link, error) {
	late := time.NewTimer(u.times.down)
	defer late.Stop()
	for {
		u.mu.Lock()
		l, down, changed := u.link, u.down, u.changed
		u.mu.Unlock()
		if l != nil {
			return l, nil
		}
		select {
		case <-changed:
		case <-u.ctx.Done():
			return nil, u.failure(context.Cause(u.ctx))
		case <-late.C:
			return nil, u.failure(down)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
