package dynamodb

import (
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"runnel/tasks"
	"runnel/tasks/engine"
)

// space is the engine.Driver: an owner's items.
type space struct {
	of     *engine.Space // not embedded, so that the compiler finds methods that are missing here
	server *server
	root   string // PREFIX:OWNER:
	last   uint64 // the last bits of a place, which are this process's own

	mu    sync.Mutex
	place uint64 // of the newest task
	beat  int64  // of the lease
	// Why nothing may be written: the table was emptied, or changed by a newer runnel.
	unusable error
	seen     map[string]pulse // by process
	looked   time.Time        // when they were last looked at
}

// usable returns an error if nothing may be written.
func (sp *space) usable() error {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return sp.unusable
}

// placeStep is how many nanoseconds share a place number. Processes that make tasks in the same step differ
// in its last bits.
const placeStep = 1 << 10

// placeNow returns the next place in the order of tasks. It follows the time, so that recent tasks can be
// counted, and rises with each task.
func (sp *space) placeNow() uint64 {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.place = max(uint64(sp.of.Now().UnixNano())/placeStep*placeStep+sp.last, sp.place+placeStep)
	return sp.place
}

// placeKey returns the key of a place. Its sort key is hexadecimal with a fixed length, so that numbers sort
// as text.
func (sp *space) placeKey(place uint64) item { return sp.key("tasks", placeText(place)) }

func placeText(place uint64) string { return fmt.Sprintf("%016x", place) }

// expiry is when DynamoDB may delete a task's items, in seconds since 1970. It does so within some days.
func (sp *space) expiry(t *tasks.Task) types.AttributeValue {
	return number(sp.of.Now().Add(sp.of.Lifetime(t)).Unix())
}

// pulse is the state of another process's lease, as this one has last seen it.
type pulse struct {
	beat  int64
	since time.Time // when the number was first seen
}

// key returns a key of the table: a partition of the owner, and a place in it.
func (sp *space) key(partition, sort string) item {
	return item{"pk": text(sp.root + partition), "sk": text(sort)}
}
