package upstream

import (
	"cmp"
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
	"runnel/tools/process"
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

	ctx     context.Context // ends when the server is not wanted any more
	stop    context.CancelFunc
	begin   sync.Once
	settled chan struct{} // closed when the tools are known, when the first start has failed, or when it takes too long

	// Owned by the Set that it belongs to, and guarded by that one's lock.
	session *session        // set before it can be called
	subs    *subscriptions  // likewise
	told    bool            // it has said what it has, or it is not started again
	catalog *catalog        // its lists, or those of when it ran last; nil: not known, or it is not started again
	tools   []tools.Tool    // those that the config wants
	clashes map[string]bool // names that were taken, and warned of

	mu      sync.Mutex
	link    *link         // nil: it is being started, pauses before a start, or is over
	down    error         // why there is no link; nil: it has not been up yet
	over    bool          // it is not started again
	changed chan struct{} // closed when link or over change
	calls   int
	retired bool // it ends with its last call
}

// New checks a configuration and makes the server of a name, which starts when its tools are needed first. What is wrong with it is a
// *config.Error.
func New(name string, conf config.Upstream, env config.Environment, log zerolog.Logger) (*Server, error) {
	def, err := define(name, conf, env, log)
	if err != nil {
		return nil, err
	}
	u := &Server{
		definition:   def,
		capabilities: remote.Capabilities(true),
		settled:      make(chan struct{}),
		session:      &session{},
		subs:         &subscriptions{log: def.log, byURI: map[string]*subscription{}},
		clashes:      map[string]bool{},
		changed:      make(chan struct{}),
	}
	u.ctx, u.stop = context.WithCancel(context.Background())
	return u, nil
}

// Servers makes the servers that a config describes, sorted by name. They run in the directory of the config file, in an environment of
// vars ("NAME=value"; nil = runnel's own). version is runnel's, which they are told.
func Servers(c *config.Config, vars []string, version string, log zerolog.Logger) (list []*Server, err error) {
	env := config.Environment{Dir: c.Dir(), Vars: vars, Version: version}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.Upstreams)) {
		u, err := New(name, c.Upstreams[name], env, log)
		if err != nil {
			errs = append(errs, c.Locate(config.Join("upstreams", name), err))
			continue
		}
		list = append(list, u)
	}
	return list, config.JoinErrors(errs)
}

// Probed is what a server said when it was tried.
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
	l, _, has, err := u.start()
	if err != nil {
		return Probed{}, err
	}
	p := Probed{l.client.Server(), l.client.Version().Name, len(has.tools(u.definition, zerolog.Nop())), time.Since(began)}
	_ = l.client.Close() // how it ends is its own affair
	return p, nil
}

// run starts the server, again and again as the policy says, until it is not wanted any more. publish takes what it has; nil
// means nothing any more.
func (u *Server) run(publish func(*catalog)) {
	settle := sync.OnceFunc(func() { close(u.settled) })
	defer settle()
	defer time.AfterFunc(u.times.list, func() {
		select {
		case <-u.settled:
		default:
			u.log.Warn().Stringer("after", u.times.list).Msg("upstream has not answered initialize and tools/list yet: its tools are missing until it does")
			settle()
		}
	}).Stop()
	pause := u.times.pause
	for {
		began := time.Now()
		err := u.serve(func(c *catalog) { publish(c); settle() })
		if u.ctx.Err() != nil {
			u.connect(nil, errors.New("runnel is shutting down, or its config has changed"), true)
			return
		}
		failed := err != nil
		if !failed {
			err = errEnded
		}
		if !u.config.Restart.Again(failed) {
			u.log.Error().Err(err).Str("restart", string(u.config.Restart)).Msg("upstream has ended: its tools are gone")
			u.connect(nil, fmt.Errorf("%w; it is not started again (restart: %s)", err, u.config.Restart), true)
			publish(nil)
			return
		}
		if time.Since(began) > u.times.steady {
			pause = u.times.pause
		}
		u.log.Warn().Err(err).Stringer("pause", pause).Msg("upstream is down: it will be started again")
		u.connect(nil, err, false)
		settle()
		select {
		case <-time.After(pause):
		case <-u.ctx.Done():
		}
		pause = min(2*pause, u.times.longest)
	}
}

// errEnded is how a server ends that nothing is wrong with.
var errEnded = errors.New("the server ended (exit code 0)")

// start starts the server and reads what it has.
func (u *Server) start() (*link, *lastWords, *catalog, error) {
	program, err := u.Program()
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel := context.WithTimeoutCause(u.ctx, u.times.start, fmt.Errorf("it did not start within %v", u.times.start))
	defer cancel()
	process.SealInherited()
	mark := process.NewMark()
	stderr := &lastWords{log: u.log}
	l := newLink(u.definition, u.session, u.subs)
	l.client, err = rpc.Dial(ctx, rpc.DialOptions{
		Command:        append([]string{program}, u.config.Command[1:]...),
		Env:            append(slices.Clip(u.env), mark), // it takes the place of one that runnel itself has
		Dir:            u.dir,
		Stderr:         stderr,
		OnStart:        stderr.forget,
		Guard:          u.guard,
		EndGroup:       func(pgid int) { process.EndFamily(pgid, mark) },
		Info:           mcp.Implementation{Name: "runnel", Version: u.version},
		Capabilities:   u.capabilities,
		Log:            u.log,
		OnMessage:      func([]byte) { l.silence.touch() },
		OnNotification: l.notification,
		OnRequest:      l.request,
	})
	if err != nil {
		return nil, nil, nil, stderr.explain(fmt.Errorf("cannot start: %w", err))
	}
	has, err := u.read(ctx, l)
	if err != nil {
		_ = l.client.Close()
		return nil, nil, nil, stderr.explain(err)
	}
	return l, stderr, has, nil
}

// guard makes the guard end the server's processes when runnel is gone.
func (u *Server) guard(pgid int) (release func()) {
	if err := process.Guard(pgid); err != nil {
		u.log.Warn().Err(err).Msg("a server is not guarded: it may outlive a runnel that is killed")
	}
	return func() { process.Release(pgid) }
}

// read reads what the server has.
func (u *Server) read(ctx context.Context, l *link) (*catalog, error) {
	ctx, cancel := context.WithTimeout(ctx, u.times.start)
	defer cancel()
	return readCatalog(ctx, l.client, u.log)
}

// serve starts the server once and returns when it has ended, and how: nil = with exit code 0.
func (u *Server) serve(publish func(*catalog)) error {
	if err := u.ctx.Err(); err != nil { // it was stopped while it paused
		return err
	}
	began := time.Now()
	l, stderr, has, err := u.start()
	if err != nil {
		return err
	}
	client := l.client
	publish(has)
	u.connect(l, nil, false)
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
	hung := errors.Is(client.Err(), errHung)
	u.connect(nil, errors.New("it is being stopped"), false) // before the calls on it end: who calls again then gets the next one
	if hung {
		l.end(fmt.Errorf("%w for %v", errHung, u.hungAfter))
	}
	err = client.Close()
	background.Wait()
	switch {
	case hung:
		return l.err
	case u.ctx.Err() != nil:
		err = errors.New("it was stopped")
	case err != nil:
		err = stderr.explain(err)
	}
	l.end(cmp.Or(err, errEnded))
	return err
}

// relist reads the lists again when they have changed, at most once a second, and a few times more, after
// pauses that grow, when one of them could not be read. It ends with the connection, or when the server is not wanted any more.
func (u *Server) relist(l *link, has *catalog, publish func(*catalog)) {
	var again <-chan time.Time // nil: the lists are whole
	retry := u.times.relist
	for changed, rest := l.relist, (<-chan time.Time)(nil); ; {
		if again == nil && !has.isWhole() && retry <= u.times.longest {
			again = time.After(retry)
			retry *= 2
		}
		select {
		case <-rest:
			changed = l.relist
			continue
		case <-l.client.Done():
			return
		case <-u.ctx.Done():
			return
		case <-changed:
		case <-again:
			again = nil
		}
		next, err := u.read(u.ctx, l)
		if err == nil {
			has = next
			publish(has)
		} else if l.client.Err() == nil && u.ctx.Err() == nil {
			u.log.Warn().Err(err).Msg("upstream: its lists cannot be read again")
		}
		changed, rest = nil, time.After(u.times.relist)
	}
}

func (u *Server) connect(l *link, down error, over bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.link, u.down, u.over = l, down, over
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
		l, down, over, changed := u.link, u.down, u.over, u.changed
		u.mu.Unlock()
		switch {
		case l != nil:
			return l, nil
		case over:
			return nil, u.failure(down)
		}
		select {
		case <-changed:
		case <-late.C:
			return nil, u.failure(cmp.Or(down, errors.New("it has not started yet: try again later")))
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// enter counts a call until leave. It fails when the server is not wanted any more.
func (u *Server) enter() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.retired {
		return u.failure(errors.New("it was taken out of the config"))
	}
	u.calls++
	return nil
}

func (u *Server) leave() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.calls--; u.calls == 0 && u.retired {
		u.stop()
	}
}

// retire ends the server when its last call has.
func (u *Server) retire() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.retired = true; u.calls == 0 {
		u.stop()
	}
}
