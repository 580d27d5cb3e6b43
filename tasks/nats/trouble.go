package nats

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"runnel/tasks"
	"runnel/tasks/engine"
)

// These errors tell people why servers cannot store or answer.

// explain turns a server's refusal into an error that says what the user can do.
func explain(err *jetstream.APIError) error {
	if isFull(err) {
		return tasks.Trouble{Err: fmt.Errorf("%w: wait for tasks to expire, prune some (runnel tasks "+
			"prune --force), or raise its limit (?maxBytes=, or the server's): %w",
			engine.ErrNoRoom, err)}
	}
	return tasks.Trouble{Err: fmt.Errorf("the state refuses it: %w", err)}
}

const (
	noPeers    = 10005 // some nodes are away, or have no room for a stream
	notCreated = 10049 // a stream of this name is being deleted, or the disk refuses its folder
)

// isFull reports whether a server has no room for a message, or for a stream.
func isFull(err *jetstream.APIError) bool {
	switch err.ErrorCode {
	case 10002, 10023, 10028, 10047: // limits of the account or the server, of memory or storage
		return true
	case noPeers:
		return strings.Contains(err.Description, "insufficient storage")
	}
	// JSStreamStoreFailedF, whatever the reason.
	return err.ErrorCode == 10077 && strings.HasPrefix(err.Description, "maximum ")
}

// busy turns refusals that will pass into tasks.ErrBusy.
func busy(err error) error {
	refused, ok := errors.AsType[*jetstream.APIError](err)
	switch {
	case err == nil, errors.Is(err, nats.ErrNoResponders),
		errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		// A server without JetStream.
		return err
	case ok && refused.Code != 503 && (refused.ErrorCode != noPeers || isFull(refused)):
		return err
	}
	return unreachable(err)
}

func unreachable(err error) error {
	return tasks.Trouble{Err: engine.Away{Err: fmt.Errorf("no server of the state has answered: %w", err)}}
}
