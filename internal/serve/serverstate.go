package serve

import (
	"context"
	"time"

	"runnel/tasks"
	"runnel/tools/config"
)

// PeoplesState is a state as the commands for people need it.
type PeoplesState interface {
	tasks.State
	// Find returns the ids of an owner's tasks that begin with a text, most ids at most.
	Find(ctx context.Context, owner, prefix string, most int) ([]string, error)
	// Forget deletes an owner's tasks that have ended by a time; without force it keeps those whose result
	// nobody has fetched.
	Forget(ctx context.Context, owner string, ended time.Time, force bool) (gone []tasks.Task,
		kept int, err error)
}

// ServersState is a state on servers, which several machines share.
type ServersState interface {
	PeoplesState
	// Check checks whether the servers answer, and describes for people what an owner has there.
	Check(ctx context.Context, owner string) (string, error)
}

func limits(conf *config.Config) tasks.Limits {
	return tasks.Limits{
		MaxLive:              conf.Tasks.MaxLive,
		MaxStartsPerMinute:   conf.Tasks.MaxStartsPerMinute,
		MaxRequestsPerSecond: conf.Tasks.MaxRequestsPerSecond,
	}
}
