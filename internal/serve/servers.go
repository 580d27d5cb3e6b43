package serve

import (
	"fmt"
	"strings"

	"github.com/rs/zerolog"

	"runnel/tasks"
	"runnel/tasks/redis"
	"runnel/tools/config"
)

// OpenURL opens the state that a config names by a URL. calls: it finds calls without a handle, too, for people; recovered is told of tasks whose
// keeper is gone. It connects with the first use.
//
// The client of Redis costs a start some 3 %, and 0.6 MB; those of NATS and DynamoDB are in the binaries alone that are built for them
// (servers_nats.go, servers_dynamodb.go).
func OpenURL(conf *config.Config, getenv func(string) string, calls bool, recovered func(*tasks.Task), log zerolog.Logger) (ServersState, error) {
	switch scheme, _, _ := strings.Cut(conf.State.Dir, "://"); scheme {
	case "nats", "tls":
		return openNATS(conf, getenv, calls, recovered, log)
	case "redis", "rediss":
		o, err := redis.Parse(conf.State.Dir, getenv)
		if err != nil {
			return nil, &UsageError{Err: fmt.Errorf("--state: %w", err)}
		}
		o.Limits, o.Calls, o.Recovered, o.Log = limits(conf), calls, recovered, log
		return redis.New(o), nil
	case "dynamodb":
		return openDynamoDB(conf, calls, recovered, log)
	default:
		return nil, &UsageError{Err: fmt.Errorf("--state: %w", config.Wrong("nats://, redis://, dynamodb://, a directory, memory", "%s:// is not a state that runnel knows", scheme))}
	}
}
