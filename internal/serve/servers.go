package serve

import (
	"fmt"
	"strings"

	"github.com/rs/zerolog"

	"runnel/tasks"
	"runnel/tasks/engine"
	"runnel/tasks/redis"
	"runnel/tools/config"
)

// Only the binaries that are built for them have the clients of NATS (servers_nats.go) and DynamoDB (servers_dynamodb.go): that of NATS makes
// each start some 14 % longer, also where it is not used. That of Redis costs a start some 3 %, and 0.6 MB.
var openNATS, openDynamoDB func(url string, getenv func(string) string, more engine.Options) (ServersState, error)

func openRedis(url string, getenv func(string) string, more engine.Options) (ServersState, error) {
	o, err := redis.Parse(url, getenv)
	if err != nil {
		return nil, err
	}
	o.Options = more
	return redis.New(o), nil
}

// OpenURL opens the state that a config names by a URL; the state connects at its first use. calls: it also finds calls without a handle, for
// people. recovered is called with each task whose keeper is gone.
func OpenURL(conf *config.Config, getenv func(string) string, calls bool, recovered func(*tasks.Task), log zerolog.Logger) (state ServersState, err error) {
	wrong := func(err error) error { return &UsageError{Err: fmt.Errorf("--state: %w", err)} }
	open, name := openRedis, "" // name: the client that has to be built in
	switch scheme, _, _ := strings.Cut(conf.State.Dir, "://"); scheme {
	case "nats", "tls":
		open, name = openNATS, "NATS"
	case "redis", "rediss":
	case "dynamodb":
		open, name = openDynamoDB, "DynamoDB"
	default:
		return nil, wrong(config.Wrong("nats://, redis://, dynamodb://, a directory, memory", "%s:// is not a state that runnel knows", scheme))
	}
	if open == nil {
		return nil, wrong(fmt.Errorf("this runnel was built without %s: take that of runnel-VERSION-SYSTEM-states, or build one with go build -tags %s; or name redis://HOST or a directory", name, strings.ToLower(name)))
	}
	state, err = open(conf.State.Dir, getenv, engine.Options{Limits: limits(conf), Calls: calls, Recovered: recovered, Log: log})
	if err != nil {
		return nil, wrong(err)
	}
	return state, nil
}
