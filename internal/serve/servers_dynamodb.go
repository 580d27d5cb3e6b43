//go:build dynamodb

package serve

import (
	"fmt"

	"github.com/rs/zerolog"

	"runnel/tasks"
	"runnel/tasks/dynamodb"
	"runnel/tools/config"
)

// openDynamoDB opens a state in DynamoDB.
func openDynamoDB(conf *config.Config, calls bool, recovered func(*tasks.Task), log zerolog.Logger) (ServersState, error) {
	o, err := dynamodb.Parse(conf.State.Dir)
	if err != nil {
		return nil, &UsageError{Err: fmt.Errorf("--state: %w", err)}
	}
	o.Limits, o.Calls, o.Recovered, o.Log = limits(conf), calls, recovered, log
	return dynamodb.New(o), nil
}
