//go:build nats

package serve

import (
	"fmt"

	"github.com/rs/zerolog"

	"runnel/tasks"
	"runnel/tasks/nats"
	"runnel/tools/config"
)

// openNATS opens a state in NATS. The client of NATS makes each start some 14 % longer, also of those who do not use it: so it is in the
// binaries alone that are built for it.
func openNATS(conf *config.Config, getenv func(string) string, calls bool, recovered func(*tasks.Task), log zerolog.Logger) (ServersState, error) {
	o, err := nats.Parse(conf.State.Dir, getenv)
	if err != nil {
		return nil, &UsageError{Err: fmt.Errorf("--state: %w", err)}
	}
	o.Limits, o.Calls, o.Recovered, o.Log = limits(conf), calls, recovered, log
	return nats.New(o), nil
}
