package serve

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"runnel/internal/pause"
	"runnel/internal/system"
	"runnel/tasks"
	"runnel/tasks/engine"
	"runnel/tasks/nats"
	"runnel/tasks/redis"
	"runnel/tasks/sqlite"
	"runnel/tools/config"
)

// recoverDelay is after how long an existing state is opened if no task has opened it, so that the tasks of a
// runnel that is gone get their end. A client that only probes the server has left by then.
const recoverDelay = time.Second

// openState opens the state. It refuses a state without workers if the config has tools for them.
func (s *Setup) openState(conf *config.Config, log zerolog.Logger) (tasks.State, error) {
	store, err := s.openAny(conf, log)
	tool := conf.RunsElsewhere()
	if _, ok := store.(tasks.Queues); ok || err != nil || tool == "" && len(conf.Fleet.Classes) == 0 {
		return store, err
	}
	_ = store.Close() // nothing has been stored
	path, key := config.Join("tools", tool), "runs"
	if tool == "" {
		path, key = "fleet", "classes"
	}
	return nil, &UsageError{Err: conf.Locate(path,
		&config.Error{Key: key, Problem: "workers are found through a state on NATS, and tasks live " +
			"elsewhere here",
			Allowed: "with --state nats://HOST:4222 (or state.dir); else leave " + key + " out"})}
}

func (s *Setup) openAny(conf *config.Config, log zerolog.Logger) (tasks.State, error) {
	if conf.State.InMemory() {
		return tasks.NewMemory(), nil
	}
	if conf.State.IsURL() {
		return OpenURL(conf, s.Getenv, false, s.Notices.Tell, log)
	}
	dir, err := conf.StateDir(s.Getenv)
	switch {
	case errors.Is(err, config.ErrNoHome) && conf.Detaches() != "":
		return nil, &UsageError{Err: fmt.Errorf("tools.%s.detach needs tasks on disk, and %w; name a "+
			"directory with --state", conf.Detaches(), err)}
	case errors.Is(err, config.ErrNoHome): // some hosts start their servers with almost no environment
		log.Warn().Err(err).Msg("tasks live in memory: name a directory with --state to keep them")
		return tasks.NewMemory(), nil
	case err != nil:
		return nil, &UsageError{Err: err}
	}
	return sqlite.New(sqlite.Options{
		Dir: dir, MaxState: int64(conf.State.MaxState), Limits: limits(conf), Calls: s.view != nil,
		History:   History(conf),
		Recovered: s.Notices.Tell, Log: log,
	}), nil
}

// History returns what a config says about the calls that are kept for people.
func History(conf *config.Config) tasks.History {
	return tasks.History{Calls: conf.History.Calls, Age: time.Duration(conf.History.Age),
		Log: int(conf.History.Log)}
}

func limits(conf *config.Config) tasks.Limits {
	return tasks.Limits{
		MaxLive:              conf.Tasks.MaxLive,
		MaxStartsPerMinute:   conf.Tasks.MaxStartsPerMinute,
		MaxRequestsPerSecond: conf.Tasks.MaxRequestsPerSecond,
	}
}

func closeState(store tasks.State, log zerolog.Logger) {
	if err := store.Close(); err != nil {
		log.Error().Err(err).Msg("closing the state")
	}
}

// inMemory reports whether tasks end with this process.
func inMemory(store tasks.State) bool {
	_, ok := store.(*tasks.Memory)
	return ok
}

// warnOfState warns of a state that cannot be written before the first task fails.
func warnOfState(store tasks.State, log zerolog.Logger) {
	s, ok := store.(*sqlite.State)
	if !ok {
		return
	}
	there := system.NearestDir(s.Dir())
	if err := system.CanWrite(there); err != nil {
		log.Warn().Err(err).Str("dir", there).
			Msg("tasks cannot be kept: name another directory with --state, or --state memory")
	}
}

// recoverState opens an existing state after recoverDelay, unless ctx ends first, to recover the tasks in it.
// It says what is wrong with one on servers, and again each deadInterval.
func recoverState(ctx context.Context, conf *config.Config, store tasks.State, log zerolog.Logger) {
	var open func() error
	switch s := store.(type) {
	case *sqlite.State:
		if !s.Exists() {
			return
		}
		open = s.Recover
	case interface {
		Space(owner string) *engine.Space
	}:
		open = func() error { return s.Space(conf.Server.Owner).Ready(ctx) }
	default:
		return
	}
	go func() {
		for wait := recoverDelay; pause.For(ctx, wait); wait = deadInterval {
			err := open()
			if err == nil || ctx.Err() != nil {
				return
			}
			if !conf.State.IsURL() {
				log.Error().Err(err).Msg("recovering tasks")
				return
			}
			log.Error().Err(err).Msg("no call can be a task, or reach a worker, until the state answers: " +
				"start its server, or name another state with --state")
		}
	}()
}

// deadInterval is how often a state that cannot be opened is named.
const deadInterval = time.Minute

// PeoplesStore is a store as the commands for people need it: all but those in memory are.
type PeoplesStore interface {
	tasks.Shared
	// Find returns the ids of tasks that begin with a text, most ids at most.
	Find(ctx context.Context, prefix string, most int) ([]string, error)
	// Forget deletes the tasks that have ended by a time; without force it keeps those whose result no client
	// has fetched.
	Forget(ctx context.Context, ended time.Time, force bool) (gone []tasks.Task, kept int, err error)
}

// openDynamoDB is set in the programs that are built for DynamoDB (servers_dynamodb.go): its client makes the
// program 5 MB larger, and each start some 45 % longer, also where it is not used.
var openDynamoDB func(url string, getenv func(string) string, more engine.Options) (tasks.State, error)

func openNATS(url string, getenv func(string) string, more engine.Options) (tasks.State, error) {
	o, err := nats.Parse(url, getenv)
	if err != nil {
		return nil, err
	}
	o.Options = more
	return nats.New(o), nil
}

func openRedis(url string, getenv func(string) string, more engine.Options) (tasks.State, error) {
	o, err := redis.Parse(url, getenv)
	if err != nil {
		return nil, err
	}
	o.Options = more
	return redis.New(o), nil
}

// OpenURL opens the state that a config names by a URL; the state connects at its first use. calls: it also
// finds calls without a handle, for people. recovered is called with each task whose keeper is gone.
func OpenURL(conf *config.Config, getenv func(string) string, calls bool, recovered func(*tasks.Task),
	log zerolog.Logger) (state tasks.State, err error) {
	wrong := func(err error) error { return &UsageError{Err: fmt.Errorf("--state: %w", err)} }
	open := openRedis
	switch scheme, _, _ := strings.Cut(conf.State.Dir, "://"); scheme {
	case "nats", "tls":
		open = openNATS
	case "redis", "rediss":
	case "dynamodb":
		if open = openDynamoDB; open == nil {
			return nil, wrong(errors.New("this runnel was built without DynamoDB: build one with go build " +
				"-tags dynamodb; or name nats://HOST, redis://HOST or a directory"))
		}
	default:
		return nil, wrong(config.Wrong("nats://, redis://, dynamodb://, a directory, memory",
			"%s:// is not a state that runnel knows", scheme))
	}
	state, err = open(conf.State.Dir, getenv,
		engine.Options{Limits: limits(conf), Calls: calls, Recovered: recovered, Log: log})
	if err != nil {
		return nil, wrong(err)
	}
	return state, nil
}
