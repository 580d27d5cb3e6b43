//go:build dynamodb

package serve

import (
	"runnel/tasks"
	"runnel/tasks/dynamodb"
	"runnel/tasks/engine"
)

func init() {
	openDynamoDB = func(url string, _ func(string) string, more engine.Options) (tasks.State, error) {
		o, err := dynamodb.Parse(url)
		if err != nil {
			return nil, err
		}
		o.Options = more
		return dynamodb.New(o), nil
	}
}
