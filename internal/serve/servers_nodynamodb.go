//go:build !dynamodb

package serve

import (
	"errors"

	"github.com/rs/zerolog"

	"runnel/tasks"
	"runnel/tools/config"
)

// openDynamoDB refuses a state in DynamoDB: this binary was built without (servers_dynamodb.go).
func openDynamoDB(*config.Config, bool, func(*tasks.Task), zerolog.Logger) (ServersState, error) {
	return nil, &UsageError{Err: errors.New("--state: this runnel was built without DynamoDB: build one with go build -tags dynamodb, or name redis://HOST or a directory")}
}
