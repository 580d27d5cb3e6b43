package redis

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"runnel/tasks"
)

// space is what this process has of an owner's keys.
type space struct {
	s     *State
	owner string
	root  string // PREFIX:OWNER:

	ctx  context.Context // until Close
	stop context.CancelFunc
	all  sync.WaitGroup

	mu       sync.Mutex
	live     map[string]*keeping  // by id: the tasks that this process runs
	fenced   map[string]struct{}  // of them, those that others have ended
	renewed  time.Time            // when the lease was last stored
	doubtful map[string]struct{}  // tasks that were refused, which may be stored
	missed   map[string]time.Time // processes without a lease, and since when this one knows
}

// schema is the version of what stands in Redis. The scripts compare it: a runnel that is older than what stands there writes nothing.
const schema = "1"

func (s *State) openSpace(ctx context.Context, owner string) (*space, error) {
	name := owner
	if !isToken(owner) || owner[0] == '_' {
		sum := sha256.Sum256([]byte(owner))
		name = "_" + hex.EncodeToString(sum[:16])
	}
	sp := &space{
		s: s, owner: owner, root: s.o.Prefix + ":" + name + ":",
		live: map[string]*keeping{}, fenced: map[string]struct{}{}, doubtful: map[string]struct{}{},
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	found, err := sp.call(ctx, "open", "", 0)
	if err != nil {
		return nil, err
	}
	if found != schema {
		return nil, fmt.Errorf("what stands in %s* has version %q, and this runnel knows %s: use the runnel that made it, or another prefix (?prefix=NAME)", sp.root, clip(found), schema)
	}
	if err := sp.keepAlive(ctx); err != nil {
		return nil, err
	}
	return sp, nil
}

// clip shortens what anybody may have written.
func clip(s string) string { return s[:min(len(s), 32)] }

// close ends what goes on, and gives the lease back before ctx ends.
func (sp *space) close(ctx context.Context) {
	sp.stop()
	sp.all.Wait()
	c := sp.s.client
	c.Do(ctx, c.B().Zrem().Key(sp.root+"alive").Member(sp.s.keeper).Build()) // else the lease runs out by itself
}

// forever is a ttl beyond which nothing needs one.
const forever = 10 * 365 * 24 * time.Hour

// graceTTL is how long what belongs to a task outlives it: its end is being stored.
const graceTTL = time.Minute

// left is how long what is stored of a task is kept.
func (sp *space) left(t *tasks.Task) time.Duration {
	if t.TTL > forever {
		return forever
	}
	return max(t.TTL-sp.s.o.Now().Sub(t.CreatedAt)+graceTTL, time.Second)
}
