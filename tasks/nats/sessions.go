package nats

import (
	"bytes"
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"runnel/tasks"
)

// Sessions of HTTP clients are stored with the leases, and expire as they do. The version of one is the
// sequence number of its message.

// session is the subject of an HTTP client's session.
func (sp *space) session(id string) string { return sp.alive + "session." + id }

// Session implements engine.Driver.
func (sp *space) Session(ctx context.Context, id string) (session []byte, version uint64, err error) {
	messages, err := sp.lastOf(ctx, sp.leaseName, sp.session(id))
	if err != nil || len(messages) == 0 {
		return nil, 0, err
	}
	return messages[0].Data, messages[0].Sequence, nil
}

// PutSession implements engine.Driver.
func (sp *space) PutSession(ctx context.Context, id string, session []byte, version uint64) (uint64, error) {
	m := &nats.Msg{Subject: sp.session(id), Data: session, Header: nats.Header{
		jetstream.MsgRollup: {jetstream.MsgRollupSubject}, jetstream.MsgIDHeader: {uuid.NewString()},
	}}
	seen, ttl := jetstream.WithExpectLastSequencePerSubject(version), jetstream.WithMsgTTL(tasks.SessionTTL)
	put, err := sp.publish(ctx, m, seen, ttl)
	// This process may have stored it itself, and the server that knew so has died.
	if errors.Is(err, tasks.ErrFenced) {
		stored, version, err := sp.Session(ctx, id)
		if err != nil || !bytes.Equal(stored, session) {
			version = 0
		}
		return version, err
	}
	return put, err
}

// DeleteSession implements engine.Driver.
func (sp *space) DeleteSession(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	if err := sp.leases.Purge(ctx, jetstream.WithPurgeSubject(sp.session(id))); err != nil {
		return unreachable(err)
	}
	return nil
}
