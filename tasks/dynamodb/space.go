package dynamodb

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"runnel/tasks"
	"runnel/tasks/engine"
)

// space is the engine.Store: an owner's items.
type space struct {
	of     *engine.Space // not embedded: what is missing here would be its own
	server *server
	root   string // PREFIX:OWNER:
	last   uint64 // bits of a place that this process has for itself

	mu       sync.Mutex
	place    uint64           // of the task that was made last
	beat     int64            // of the lease
	unusable error            // nothing is written any more: the table was emptied, or a newer runnel has changed it
	seen     map[string]pulse // by process
	looked   time.Time        // when they were last looked at
}

// schema is the version of what stands in the table.
const schema = 1

// Open implements engine.Engine.
func (s *server) Open(ctx context.Context, of *engine.Space) (engine.Store, engine.Queue, error) {
	sp := &space{of: of, server: s, root: s.o.Prefix + ":" + of.Name + ":", last: rand.Uint64N(placeStep)}
	found, err := sp.version(ctx)
	if err == nil && found == "" {
		first := with(sp.key("schema", "schema"), item{"version": number(schema)})
		if err = sp.put(ctx, first, "attribute_not_exists(#pk)"); err == nil || isCondition(err) { // another process was quicker
			found, err = sp.version(ctx)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if found != strconv.Itoa(schema) {
		return nil, nil, fmt.Errorf("what stands at %s* has version %q, and this runnel knows %d: use the runnel that made it, or another prefix (?prefix=NAME)", sp.root, clip(found), schema)
	}
	return sp, nil, nil
}

// version is that of what stands in the table, "" if nothing does.
func (sp *space) version(ctx context.Context) (string, error) {
	i, err := sp.get(ctx, sp.key("schema", "schema"))
	if err != nil || i == nil {
		return "", err
	}
	if n, ok := i["version"].(*types.AttributeValueMemberN); ok {
		return n.Value, nil
	}
	return "unknown", nil
}

// check looks whether what stands in the table is still what this runnel knows.
func (sp *space) check(ctx context.Context) error {
	found, err := sp.version(ctx)
	if err != nil {
		return err
	}
	switch found {
	case strconv.Itoa(schema):
		err = nil
	case "":
		err = sp.errRemoved()
	default:
		err = sp.errNewer()
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.unusable = err
	return err
}

// usable reports why nothing may be written.
func (sp *space) usable() error {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return sp.unusable
}

// placeStep is how many nanoseconds are one place: processes that make a task in the same step have places of their own in it.
const placeStep = 1 << 10

// placeNow is a place in the order of tasks: by the time, so that tasks that were made lately can be counted, and each after the one before.
func (sp *space) placeNow() uint64 {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.place = max(uint64(sp.of.Now().UnixNano())/placeStep*placeStep+sp.last, sp.place+placeStep)
	return sp.place
}

// placeKey is the key of a place. Its sort key is hexadecimal, so that the order of numbers is that of text.
func (sp *space) placeKey(place uint64) item { return sp.key("tasks", placeText(place)) }

func placeText(place uint64) string { return fmt.Sprintf("%016x", place) }

// expiry is when DynamoDB may delete what is stored of a task, in seconds since 1970. It does so within some days.
func (sp *space) expiry(t *tasks.Task) types.AttributeValue {
	return number(sp.of.Now().Add(sp.of.Left(t)).Unix())
}
