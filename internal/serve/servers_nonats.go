//go:build !nats

package serve

import (
	"errors"

	"github.com/rs/zerolog"

	"runnel/tasks"
	"runnel/tools/config"
)

// openNATS refuses a state in NATS: this binary was built without (servers_nats.go).
func openNATS(*config.Config, func(string) string, bool, func(*tasks.Task), zerolog.Logger) (ServersState, error) {
	return nil, &UsageError{Err: errors.New("--state: this runnel was built without NATS: build one with go build -tags nats, or name redis://HOST or a directory")}
}
