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

	"runnel/internal/signal"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tools"
	"runnel/tools/config"
)

// Server is another MCP server, whose tools stand among runnel's own.
//
// It starts only when one of its tools, prompts or resources is needed, since some hosts start their servers
// only to see what they are. Until then, its lists from the last time are used (kept.go). Its restart policy
// decides whether it is started again, after a growing pause. While it is down, its tools stay in the list,
// and a call waits a little for it; if it will not be started again, they leave the list.
type Server struct {
	*definition
	client   shownClient // set by remember
	remember sync.Once

	// Ends when the server is no longer wanted, or will not be started again; its cause says why.
	ctx   context.Context
	end   context.CancelCauseFunc
	begin sync.Once
	busy  sync.RWMutex // read-locked by each call; retire takes it for good

	// answered has a latch for initialize and for each list by its method, set once the server has answered
	// it. All are set if the first start fails.
	answered map[string]*signal.Latch
	late     signal.Latch // it has taken long to start: lists do not wait any more
	keeping  sync.Mutex   // held while the catalog is stored
	diary    diary

	// Owned by the Set, and guarded by its lock.
	session  *session       // set before the server can be called
	subs     *subscriptions // likewise
	told     bool           // it has introduced itself, or it will not be started again
	recalled bool           // its lists from the last time were known
	// Its lists, or those from the last time; nil: unknown, or it will not be started again.
	catalog *catalog
	tools   []tools.Tool    // those that the config wants
	clashes map[string]bool // taken names that a warning was logged for

	mu      sync.Mutex
	link    *link         // nil: it is starting, pauses before a start, or has ended
	down    error         // why link is nil
	changed chan struct{} // closed when link changes
}

// New checks a configuration and makes the server, which starts when its tools are needed first. An error in
// the configuration is a *config.Error.
func New(name string, conf config.Upstream, env config.Base, log zerolog.Logger) (*Server, error) {
	def, err := define(name, conf, env, log)
	if err != nil {
		return nil, err
	}
	u := &Server{
		definition: def,
		session:    &session{},
		subs:       &subscriptions{log: def.log, byURI: map[string]*subscription{}},
		clashes:    map[string]bool{},
		changed:    make(chan struct{}),
		down:       errors.New("it has not started yet: try again later"),
		answered:   map[string]*signal.Latch{initialize: {}},
	}
	for _, kind := range listKinds {
		u.answered[kind.method] = &signal.Latch{}
	}
	u.client = shown(nil, u.version)
	u.ctx, u.end = context.WithCancelCause(context.Background())
	return u, nil
}

// Servers makes the servers that a config describes, sorted by name, except those that workers run. They run
// in the directory of the config file, not in env.Dir.
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

// Probe starts the server as a session would, asks for its tools, and ends it. The error says why it cannot
// be used.
func (u *Server) Probe(ctx context.Context, limit time.Duration) (Probed, error) {
	defer context.AfterFunc(ctx, u.stop)()
	defer u.stop()
	u.times.start = limit
	began := time.Now()
	l, err := u.start()
	if err != nil {
		return Probed{}, err
	}
	var has catalog
	asking, cancel := context.WithDeadline(ctx, began.Add(limit))
	defer cancel()
	change, err := u.readList(asking, l.client, listKinds[0])
	if err == nil {
		change(&has)
	}
	_ = l.client.Close() // how it ends does not matter here
	if err != nil {
		return Probed{}, l.stderr.explain(err)
	}
	return Probed{l.client.Server(), l.client.Version().Name, len(has.specs), time.Since(began)}, nil
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

// initialize is the key of Server.answered for the server's introduction.
const initialize = "initialize"

// settle ends all waiting for the server's first start.
func (u *Server) settle() {
	for _, latch := range u.answered {
		latch.Set()
	}
}

// await waits until something is known of the server, by the key of answered; without patience no longer than
// times.list. Each beat it calls alive.
func (u *Server) await(ctx context.Context, what string, patient bool, beat time.Duration, alive func()) {
	late := u.late.Done()
	if patient {
		late = nil
	}
	var tick <-chan time.Time
	if beat > 0 {
		ticker := time.NewTicker(beat)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case <-u.answered[what].Done():
			return
		case <-late:
			return
		case <-u.ctx.Done():
			return
		case <-ctx.Done():
			return
		case <-tick:
			alive()
		}
	}
}

// run starts the server, and restarts it by its policy, until it is no longer wanted. learn takes what it
// says of itself; nil means that it will not be back.
func (u *Server) run(learn func(change func(*catalog))) {
	defer u.settle()
	defer u.diary.close()
	defer time.AfterFunc(u.times.list, func() {
		if !u.answered[toolList].IsSet() {
			u.log.Warn().Stringer("after", u.times.list).
				Msg("upstream has not answered initialize and tools/list yet: its tools are missing until it does")
		}
		u.late.Set() // after the log's line, which explains the list that is answered now
	}).Stop()
	for pause := u.times.pause; u.ctx.Err() == nil; pause = min(2*pause, u.times.longest) {
		began := time.Now()
		err := u.serve(learn)
		if u.ctx.Err() != nil {
			return
		}
		if !u.config.Restart.Again(err != errEnded) {
			u.log.Error().Err(err).Str("restart", string(u.config.Restart)).
				Msg("upstream has ended: its tools are gone")
			u.diary.note("%s%v; it is not started again (restart: %s)", endedWords, err, u.config.Restart)
			u.end(fmt.Errorf("%w; it is not started again (restart: %s)", err, u.config.Restart))
			learn(nil)
			return
		}
		if time.Since(began) > u.times.steady {
			pause = u.times.pause
		}
		u.log.Warn().Err(err).Stringer("pause", pause).Msg("upstream is down: it will be started again")
		u.diary.note("%s%v; it is started again in %v", endedWords, err, pause)
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

// start starts or reaches the server.
func (u *Server) start() (*link, error) {
	ctx, cancel := context.WithTimeoutCause(u.ctx, u.times.start,
		fmt.Errorf("it did not start within %v", u.times.start))
	defer cancel()
	l := newLink(u.definition, u.session, u.subs)
	l.stderr.diary = &u.diary
	u.diary.note("started")
	err := l.dial(ctx, rpc.DialOptions{
		Info:           u.client.Info,
		Capabilities:   u.client.Capabilities,
		Log:            u.log,
		OnMessage:      func([]byte) { l.silence.seen.Add(1) },
		OnNotification: l.notification,
		OnRequest:      l.request,
	})
	if err != nil {
		return nil, l.stderr.explain(err)
	}
	return l, nil
}

// serve starts the server once and returns how it has ended.
func (u *Server) serve(learn func(change func(*catalog))) error {
	began := time.Now()
	l, err := u.start()
	if err != nil {
		return err
	}
	client := l.client
	learn(func(c *catalog) { c.introduce(client, u.secrets.Set()) })
	u.connect(l, nil)
	u.answered[initialize].Set()
	u.log.Info().Str("server", client.Server().Name).Str("protocol", client.Version().Name).
		Stringer("after", time.Since(began).Round(time.Millisecond)).Msg("upstream is up")
	var background sync.WaitGroup
	background.Go(func() { l.silence.watch(client, u.definition) })
	background.Go(l.listen)
	background.Go(func() { l.prepare(u.showsRoots(l)) })
	background.Go(func() {
		u.session.tellLevel(client.Context(), client, u.log)
		u.subs.renew(client)
	})
	for _, kind := range listKinds {
		if kind.isOf(client.Capabilities()) {
			background.Go(func() { u.follow(l, kind, learn) })
		} else {
			u.answered[kind.method].Set()
		}
	}
	select {
	case <-client.Context().Done():
	case <-u.ctx.Done():
	}
	reason := client.Err()
	// before its calls end, so that a caller who tries again gets the next connection.
	u.connect(nil, errors.New("it is being stopped"))
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

// showsRoots reports whether the server of a connection may ask for the client's roots at any time.
func (u *Server) showsRoots(l *link) bool {
	return l.client.Era() == rpc.Handshake && rawjson.Member(u.client.Capabilities, "roots") != nil
}

// follow reads a list of the server, and again when it has changed, at most once a second. If it cannot be
// read, it tries a few more times, after growing pauses. Each list is read by itself, so that none waits for
// the answer to another. It ends with the connection.
func (u *Server) follow(l *link, kind *listKind, learn func(change func(*catalog))) {
	for retry := u.times.relist; ; {
		ctx, cancel := context.WithTimeout(l.client.Context(), u.times.start)
		change, err := u.readList(ctx, l.client, kind)
		cancel()
		var again <-chan time.Time // nil: the list is known
		switch {
		case err == nil:
			learn(func(c *catalog) {
				change(c)
				delete(c.unread, kind.method)
			})
		case l.client.Err() != nil || u.ctx.Err() != nil:
			return
		default:
			u.log.Warn().Err(err).Msg("a list of an upstream cannot be read")
			if retry <= u.times.longest || kind.method == toolList { // without tools it is of no use
				again = time.After(min(retry, u.times.longest))
				retry = min(2*retry, 2*u.times.longest)
			}
		}
		u.answered[kind.method].Set()
		pause := time.After(u.times.relist)
		select {
		case <-l.client.Context().Done():
			return
		case <-l.changed[kind.method]:
		case <-again:
		}
		select {
		case <-l.client.Context().Done():
			return
		case <-pause:
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

// whyDown returns why the server is not there, nil if it is.
func (u *Server) whyDown() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.link != nil {
		return nil
	}
	return u.down
}

// connected waits until the server is there: for its first start as long as the caller does, later for a
// while. before, if not nil, is a connection that has ended.
func (u *Server) connected(ctx context.Context, before *link) (*link, error) {
	u.await(ctx, initialize, true, 0, nil)
	late := time.NewTimer(u.times.down)
	defer late.Stop()
	for {
		u.mu.Lock()
		l := u.link
		down := u.down
		changed := u.changed
		u.mu.Unlock()
		if l != nil && l != before {
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
