//go:build !nats

package serve

import (
	"errors"

	"github.com/rs/zerolog"

	"runnel/tools/config"
)

// OpenURL refuses a state that a config names by a URL: this binary was built without (servers_nats.go).
func OpenURL(*config.Config, func(string) string, bool, zerolog.Logger) (ServersState, error) {
	return nil, &UsageError{Err: errors.New("--state: this runnel keeps tasks in a directory or in memory alone: build one with go build -tags nats, or name a directory")}
}
