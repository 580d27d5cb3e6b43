package serve

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"runnel/tasks"
	"runnel/tasks/redis"
	"runnel/tools/config"
)

// PeoplesState is a state as people look at it, for the commands that do.
type PeoplesState interface {
	tasks.State
	// Find returns the ids of an owner's tasks that begin with a text, most ids at most.
	Find(ctx context.Context, owner, prefix string, most int) ([]string, error)
	// Forget deletes an owner's tasks that have ended by a time; without force it keeps those whose result nobody has fetched.
	Forget(ctx context.Context, owner string, ended time.Time, force bool) (gone []tasks.Task, kept int, err error)
}

// ServersState is a state that servers keep, where other machines find its tasks, too.
type ServersState interface {
	PeoplesState
	// Check looks whether the servers answer, and says for people what an owner has there.
	Check(ctx context.Context, owner string) (string, error)
}

// OpenURL opens the state that a config names by a URL. calls: it finds calls without a handle, too, for people. It connects with the
// first use.
//
// The client of Redis costs a start some 3 %, and 0.6 MB; those of NATS and DynamoDB are in the binaries alone that are built for them
// (servers_nats.go, servers_dynamodb.go).
func OpenURL(conf *config.Config, getenv func(string) string, calls bool, log zerolog.Logger) (ServersState, error) {
	switch scheme, _, _ := strings.Cut(conf.State.Dir, "://"); scheme {
	case "nats", "tls":
		return openNATS(conf, getenv, calls, log)
	case "redis", "rediss":
		o, err := redis.Parse(conf.State.Dir, getenv)
		if err != nil {
			return nil, &UsageError{Err: fmt.Errorf("--state: %w", err)}
		}
		o.Limits, o.Calls, o.Log = limits(conf), calls, log
		return redis.New(o), nil
	case "dynamodb":
		return openDynamoDB(conf, calls, log)
	default:
		return nil, &UsageError{Err: fmt.Errorf("--state: %s:// is no state that runnel knows (allowed: nats://, redis://, dynamodb://, a directory, memory)", scheme)}
	}
}
