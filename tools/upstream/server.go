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
// It starts only when one of its tools, prompts or resources is needed, since some hosts start their servers only to see what they are. Until
// then, its lists from the last time are used (kept.go). Its restart policy decides whether it is started again, after a growing pause. While
// it is down, its tools stay in the list, and a call waits a little for it; if it will not be started again, they leave the list.
type Server struct {
	*definition
	capabilities mcp.ClientCapabilities // shown to the server; set by remember
	remember     sync.Once

	ctx    context.Context // ends when the server is no longer wanted, or will not be started again; its cause says why
	end    context.CancelCauseFunc
	begin  sync.Once
	opened context.Context // ends when the tools are known, the first start has failed, or it takes too long; set by begin
	settle context.CancelFunc
	busy   sync.RWMutex // read-locked by each call; retire takes it for good

	// Owned by the Set, and guarded by its lock.
	session *session        // set before the server can be called
	subs    *subscriptions  // likewise
	told    bool            // its lists are known, or it will not be started again
	catalog *catalog        // its lists, or those from the last time; nil: unknown, or it will not be started again
	tools   []tools.Tool    // those that the config wants
	clashes map[string]bool // taken names that a warning was logged for

	mu      sync.Mutex
	link    *link         // nil: it is starting, pauses before a start, or has ended
	down    error         // why link is nil
	changed chan struct{} // closed when link changes
}

// New checks a configuration and makes the server, which starts when its tools are needed first. An error in the configuration is a
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

// Servers makes the servers that a config describes, sorted by name, except those that workers run. They run in the directory of the config
// file, not in env.Dir.
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

// Probed is the result of Probe.
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
	_ = l.client.Close() // how it ends does not matter here
	return p, nil
}

// stop ends the server.
func (u *Server) stop() { u.end(errors.New("runnel is shutting down, or its config has changed")) }

// retire ends the server after its last call.
func (u *Server) retire() {
	go func() { // ends with the last call
		u.busy.Lock()
		u.stop()
	}()
}

// open lets callers wait for the server, but not longer than times.list.
func (u *Server) open() {
	u.opened, u.settle = context.WithCancel(u.ctx)
	time.AfterFunc(u.times.list, func() {
		if u.opened.Err() == nil {
			u.log.Warn().Stringer("after", u.times.list).Msg("upstream has not answered initialize and tools/list yet: its tools are missing until it does")
			u.settle()
		}
	})
}

// run starts the server, and restarts it by its policy, until it is no longer wanted. publish takes its catalog; nil means that it will not
// be back.
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

// errEnded is the end of a server that has exited without an error.
var errEnded = errors.New("the server ended (exit code 0)")

// start starts or reaches the server and reads its catalog.
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

// read reads the server's catalog.
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
	u.connect(nil, errors.New("it is being stopped")) // before its calls end, so that a caller who tries again gets the next connection
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

// relist reads the lists again when they have changed, at most once a second. If one could not be read, it tries a few more times, after
// growing pauses. It ends with the connection, or when the server is no longer wanted.
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

// connect sets the connection, or the reason why it is missing.
func (u *Server) connect(l *link, down error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.link, u.down = l, down
	close(u.changed)
	u.changed = make(chan struct{})
}

// up returns the connection; nil if the server is down.
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
