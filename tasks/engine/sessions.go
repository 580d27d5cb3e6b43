package engine

import (
	"context"

	"runnel/tasks"
)

var _ tasks.Sessions = (*Space)(nil)

// Session implements tasks.Sessions.
func (sp *Space) Session(ctx context.Context, id string) (session []byte, version uint64, err error) {
	if !IsToken(id) { // a client has made it up
		return nil, 0, nil
	}
	if err := sp.Ready(ctx); err != nil {
		return nil, 0, err
	}
	return sp.Driver.Session(ctx, id)
}

// PutSession implements tasks.Sessions.
func (sp *Space) PutSession(ctx context.Context, id string, session []byte,
	version uint64) (uint64, error) {
	if err := sp.Ready(ctx); err != nil {
		return 0, err
	}
	return sp.Driver.PutSession(ctx, id, session, version)
}

// DeleteSession implements tasks.Sessions.
func (sp *Space) DeleteSession(ctx context.Context, id string) error {
	if err := sp.Ready(ctx); err != nil {
		return err
	}
	return sp.Driver.DeleteSession(ctx, id)
}
