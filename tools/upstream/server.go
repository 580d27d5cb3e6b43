package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
// when it ran last is known meanwhile (upstreamcatalog.go). It is started again, after a pause that grows, as its restart policy says. While it is down its tools stay in the list, and a
// call waits a little for it; when it is not to be started again, they leave the list.
//
// Goroutines: run's, which starts the server and waits for its end; per connection one that pings, one that
// holds the subscription to the list of a server of the stateless era, and those of rpc.Client.
type Server struct {
	name      string
	config    config.Upstream
	dir       string
	env       []string
	version   string // of runnel
	log       zerolog.Logger
	hungAfter time.Duration
	times     times

	set          *Set                   // that it belongs to; set before it can be called
	capabilities mcp.ClientCapabilities // that it is told; set with remember
	remember     sync.Once

	ctx     context.Context // ends when the server is not wanted any more
	stop    context.CancelFunc
	begin   sync.Once
	settled chan struct{} // closed when the tools are known, when the first start has failed, or when it takes too long

	// Of the set that it belongs to, and guarded by that one's lock.
	told    bool            // it has said what it has, or it is not started again
	catalog *catalog        // what it has, or had when it ran last; nil: not known, or it is not started again
	tools   []tools.Tool    // of it that are wanted
	clashes map[string]bool // names that were taken, and warned of

	subscriptions subscriptions

	mu      sync.Mutex
	link    *link         // nil: it is being started, pauses before a start, or is over
	down    error         // why there is no link; nil: it has not been up yet
	over    bool          // it is not started again
	changed chan struct{} // closed when link or over change
	calls   int
	retired bool // it ends with its last call
}

// times are the times of an upstream, which tests shorten.
type times struct {
	start     time.Duration // a server may take to start: npx downloads it then
	list      time.Duration // who asks for the list of tools waits for a server that starts
	call      time.Duration // a call waits for a server that is down
	pause     time.Duration // first pause before a start, doubled with each failure
	longest   time.Duration // longest pause
	steady    time.Duration // a server that has run so long has started well: the next pause is the first one
	pingAfter time.Duration // silence of a server that has calls
	exit      time.Duration // the failure of a call waits for how the server ended
	relist    time.Duration // least time between two looks at lists that change
}

var defaultTimes = times{
	start:     2 * time.Minute,
	list:      10 * time.Second, // hosts wait for a list for 30 s or more, and not all listen to its changes
	call:      10 * time.Second,
	pause:     500 * time.Millisecond,
	longest:   time.Minute,
	steady:    time.Minute,
	pingAfter: 10 * time.Second,
	exit:      2 * time.Second,
	relist:    rpc.ListPace,
}

func newServer(name string, conf config.Upstream, dir string, env []string, log zerolog.Logger) *Server {
	conf.Restart = cmp.Or(conf.Restart, "on-failure")
	u := &Server{
		name: name, config: conf, dir: dir, env: env, times: defaultTimes, hungAfter: time.Duration(config.DefaultHungAfter),
		log:     log.With().Str("upstream", name).Logger(),
		settled: make(chan struct{}),
		clashes: map[string]bool{},

		set:          NewSet(&tools.Registry{}), // until it is added to one
		capabilities: remote.Capabilities(true),
		changed:      make(chan struct{}),
	}
	if conf.HungAfter != nil {
		u.hungAfter = time.Duration(*conf.HungAfter)
	}
	u.ctx, u.stop = context.WithCancel(context.Background())
	return u
}

// Name is the name in the config.
func (u *Server) Name() string { return u.name }

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
			err = errors.New("the server ended (exit code 0)")
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

// Program finds the program of the server.
func (u *Server) Program() (string, error) {
	path, _ := process.LookupEnv(u.env, "PATH")
	return process.FindProgram(u.config.Command[0], u.dir, path)
}

// start starts the server and reads what it has.
func (u *Server) start() (*link, *catalog, error) {
	program, err := u.Program()
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeoutCause(u.ctx, u.times.start, fmt.Errorf("it did not start within %v", u.times.start))
	defer cancel()
	process.SealInherited()
	mark := process.NewMark()
	l := newLink(u)
	l.client, err = rpc.Dial(ctx, rpc.DialOptions{
		Command:        append([]string{program}, u.config.Command[1:]...),
		Env:            append(slices.Clip(u.env), mark), // it takes the place of one that runnel itself has
		Dir:            u.dir,
		Stderr:         l.stderr,
		OnStart:        l.stderr.forget,
		Guard:          guardGroup(u.log),
		EndGroup:       func(pgid int) { process.EndFamily(pgid, mark) },
		Info:           mcp.Implementation{Name: "runnel", Version: u.version},
		Capabilities:   u.capabilities,
		Log:            u.log,
		OnMessage:      func([]byte) { l.touch() },
		OnNotification: l.notification,
		OnRequest:      l.request,
	})
	if err != nil {
		return nil, nil, l.stderr.explain(fmt.Errorf("cannot start: %w", err))
	}
	has, err := l.catalog(ctx)
	if err != nil {
		_ = l.client.Close()
		return nil, nil, l.stderr.explain(err)
	}
	return l, has, nil
}

// serve starts the server once and returns when it has ended, and how: nil = with exit code 0.
func (u *Server) serve(publish func(*catalog)) error {
	if err := u.ctx.Err(); err != nil { // it was stopped while it paused
		return err
	}
	began := time.Now()
	l, has, err := u.start()
	if err != nil {
		return err
	}
	client := l.client
	publish(has)
	u.connect(l, nil, false)
	u.log.Info().Str("server", client.Server().Name).Str("protocol", client.Version().Name).Int("tools", len(has.Tools)).
		Stringer("after", time.Since(began).Round(time.Millisecond)).Msg("upstream is up")
	var background sync.WaitGroup
	background.Go(l.watch)
	background.Go(l.listen)
	background.Go(func() {
		l.setLevel(client.Context())
		u.subscriptions.renew(l)
	})
	relist := l.relist
	var rest <-chan time.Time // until the lists are read again
	for client.Err() == nil && u.ctx.Err() == nil {
		select {
		case <-relist:
			if has, err := l.catalog(u.ctx); err == nil {
				publish(has)
			} else if client.Err() == nil && u.ctx.Err() == nil {
				u.log.Warn().Err(err).Msg("upstream: its lists cannot be read again")
			}
			relist, rest = nil, time.After(u.times.relist)
		case <-rest:
			relist = l.relist
		case <-client.Done():
		case <-u.ctx.Done():
		}
	}
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
		err = l.stderr.explain(err)
	}
	l.end(cmp.Or(err, errors.New("the server ended (exit code 0)")))
	return err
}

// guardGroup makes the guard end a server's processes when runnel is gone.
func guardGroup(log zerolog.Logger) func(pgid int) func() {
	return func(pgid int) func() {
		if err := process.Guard(pgid); err != nil {
			log.Warn().Err(err).Msg("a server is not guarded: it may outlive a runnel that is killed")
		}
		return func() { process.Release(pgid) }
	}
}

func (u *Server) connect(l *link, down error, over bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.link, u.down, u.over = l, down, over
	close(u.changed)
	u.changed = make(chan struct{})
}

// connected waits until the server is there, for a while.
func (u *Server) connected(ctx context.Context) (*link, error) {
	late := time.NewTimer(u.times.call)
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

// failure is an error for who calls one of its tools.
func (u *Server) failure(err error) error { return fmt.Errorf("upstream %s: %w", u.name, err) }

// enter counts a call until leave, and waits for the server, which it starts if nobody has: what it has may be known from when it ran
// last. It fails when the upstream is not wanted any more.
func (u *Server) enter(ctx context.Context) (*link, error) {
	u.mu.Lock()
	retired := u.retired
	if !retired {
		u.calls++
	}
	u.mu.Unlock()
	if retired {
		return nil, u.failure(errors.New("it was taken out of the config"))
	}
	u.begin.Do(func() { u.set.start(u) })
	l, err := u.connected(ctx)
	if err != nil {
		u.leave()
	}
	return l, err
}

func (u *Server) leave() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.calls--; u.calls == 0 && u.retired {
		u.stop()
	}
}

// retire ends the upstream when its last call has.
func (u *Server) retire() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.retired = true; u.calls == 0 {
		u.stop()
	}
}

// takes reports whether a tool of the server's is wanted.
func (u *Server) takes(tool string) bool {
	return !slices.Contains(u.config.Deny, tool) && (len(u.config.Allow) == 0 || slices.Contains(u.config.Allow, tool))
}
