//go:build nats

package serve

import (
	"runnel/tasks/engine"
	"runnel/tasks/nats"
)

func init() {
	openNATS = func(url string, getenv func(string) string, more engine.Options) (ServersState, error) {
		o, err := nats.Parse(url, getenv)
		if err != nil {
			return nil, err
		}
		o.Options = more
		return nats.New(o), nil
	}
}
