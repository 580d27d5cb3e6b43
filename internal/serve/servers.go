package serve

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"runnel/tasks"
	"runnel/tasks/engine"
	"runnel/tasks/nats"
	"runnel/tasks/redis"
	"runnel/tools/config"
)

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
