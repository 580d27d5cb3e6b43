package redis

import (
	"context"

	"runnel/tasks/engine"
)

// space is the engine.Store: an owner's keys.
type space struct {
	*engine.Space
	server *connection
	root   string // PREFIX:OWNER:
}

// schema is the version of what is stored in Redis. The scripts compare it: a runnel that is older than what is stored writes nothing.
const schema = "1"

// space returns what this process has of an owner's keys.
func (s *State) space(ctx context.Context, owner string) (*space, error) {
	of, err := s.Space(ctx, owner)
	if err != nil {
		return nil, err
	}
	return of.Store.(*space), nil // connection.Open has made it
}
