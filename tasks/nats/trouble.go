package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"runnel/tasks"
	"runnel/tasks/engine"
)

// Servers that cannot store or answer say why, and the errors here say it to people.

// explain words what the server refuses for somebody who has to do something about it.
func explain(err *jetstream.APIError) error {
	if isFull(err) {
		return tasks.Trouble{Err: fmt.Errorf("the state is full: wait for tasks to expire, prune some (runnel tasks prune), or raise the limit of the stream: %w", err)}
	}
	return tasks.Trouble{Err: fmt.Errorf("the state refuses it: %w", err)}
}

// isFull reports whether a server has no room for a message.
func isFull(err *jetstream.APIError) bool {
	switch err.ErrorCode {
	case 10002, 10023, 10028, 10047: // resources of the account, of the server, memory, storage
		return true
	}
	return err.ErrorCode == 10077 && strings.HasPrefix(err.Description, "maximum ") // JSStreamStoreFailedF, whatever the reason
}

// removed reports whether the servers know that the stream is not there.
func (sp *space) removed(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	_, err := sp.c.js.Stream(ctx, sp.name)
	return errors.Is(err, jetstream.ErrStreamNotFound)
}

func (sp *space) errRemoved() error {
	return tasks.Trouble{Err: fmt.Errorf("%w: the stream %s is gone; start runnel again, which makes a new one", tasks.ErrRemoved, sp.name)}
}

func unreachable(err error) error {
	return tasks.Trouble{Err: engine.Away{Err: fmt.Errorf("no server of the state has answered: %w", err)}}
}
