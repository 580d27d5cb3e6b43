package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"runnel/tasks"
	"runnel/tasks/engine"
)

// These errors tell people why a server cannot store or answer.

// refused turns a refusal into an error that says what the user can do.
func refused(err error) error {
	said := err.Error() // an error in a script comes with more before it, and after
	switch {
	case strings.Contains(said, "OOM "):
		return tasks.Trouble{Err: fmt.Errorf("the state is full: wait for tasks to expire, prune some (runnel tasks prune), or give the server more memory (maxmemory): %w", err)}
	case strings.Contains(said, "MISCONF"):
		return tasks.Trouble{Err: fmt.Errorf("the server cannot save the state to its disk, and takes nothing more: make room there: %w", err)}
	case strings.Contains(said, "NOPERM") || strings.Contains(said, "ACL failure") || strings.Contains(said, "user executing the script can't"):
		return tasks.Trouble{Err: fmt.Errorf("the state refuses it to this user: \"runnel help states\" says what its ACL must allow: %w", err)}
	case strings.HasPrefix(said, "NOAUTH") || strings.HasPrefix(said, "WRONGPASS"):
		return tasks.Trouble{Err: fmt.Errorf("the state asks for other credentials: name a file with USER PASSWORD by ?creds=FILE or RUNNEL_REDIS_CREDS: %w", err)}
	}
	return tasks.Trouble{Err: fmt.Errorf("the state refuses it: %w", err)}
}

// unconnected explains why the connection failed.
func unconnected(err error) error {
	if _, said := rueidis.IsRedisErr(err); said {
		return refused(err)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(badReply)) {
		return fmt.Errorf("it does not answer as Redis does: name a Redis server, with rediss:// if it speaks TLS, otherwise with redis://: %w", err)
	}
	return err
}

// unreachable explains why no answer has come.
func (sp *space) unreachable(err error) error {
	if errors.As(err, new(badReply)) {
		return tasks.Trouble{Err: unconnected(err)}
	}
	return tasks.Trouble{Err: engine.Away{Err: fmt.Errorf("the state at %s has not answered: %w", sp.server.o.Server, err)}}
}
