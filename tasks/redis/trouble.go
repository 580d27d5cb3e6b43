package redis

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"runnel/tasks"
	"runnel/tasks/engine"
)

// These errors tell people why a server cannot store or answer.

// inScript is what an error in a script says about the script: its line comes before the reason, its hash
// after it.
var inScript = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`@?user_script:\d+:\s*| script: [0-9a-f]+, on @user_script:\d+\.?|Error running script.*?: `)
})

// refused turns a refusal into an error that says what the user can do.
func refused(refusal error) error {
	said := refusal.Error()
	scripted := inScript().MatchString(said)
	said = inScript().ReplaceAllString(said, "")
	var err error
	switch {
	case strings.Contains(said, "OOM "):
		err = fmt.Errorf("%w: wait for tasks to expire, prune some (runnel tasks prune), or give the "+
			"server more memory (maxmemory): %s", engine.ErrNoRoom, said)
	case strings.Contains(said, "MISCONF"):
		err = fmt.Errorf("the server cannot save the state to its disk, and takes nothing more: make room "+
			"there: %s", said)
	case strings.Contains(said, "NOPERM") || strings.Contains(said, "ACL failure") ||
		strings.Contains(said, "user executing the script can't"):
		err = fmt.Errorf("the state refuses it to this user: \"runnel help states\" says what its ACL "+
			"must allow: %s", said)
	case strings.HasPrefix(said, "NOAUTH") || strings.HasPrefix(said, "WRONGPASS"):
		err = fmt.Errorf("the state asks for other credentials: name a file with USER PASSWORD by "+
			"?creds=FILE or RUNNEL_REDIS_CREDS: %s", said)
	case scripted:
		err = fmt.Errorf("something other than runnel has changed the keys of the state: delete the "+
			"damaged one, or use another prefix (?prefix=NAME): %s", said)
	default:
		err = fmt.Errorf("the state refuses it: %s", said)
	}
	return tasks.Trouble{Err: err}
}

// unconnected explains why the connection failed.
func unconnected(err error) error {
	if _, said := rueidis.IsRedisErr(err); said {
		return refused(err)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(badReply)) {
		return fmt.Errorf("it does not answer as Redis does: name a Redis server, with rediss:// if it "+
			"speaks TLS, otherwise with redis://: %w", err)
	}
	return err
}

// unreachable explains why no answer has come.
func (sp *space) unreachable(err error) error {
	if errors.As(err, new(badReply)) {
		return tasks.Trouble{Err: unconnected(err)}
	}
	return tasks.Trouble{Err: engine.Away{Err: fmt.Errorf("the state at %s has not answered: %w",
		sp.server.o.Server, err)}}
}
