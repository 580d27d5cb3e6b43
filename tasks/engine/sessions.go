package engine

import (
	"context"

	"runnel/tasks"
)

var _ tasks.Sessions = (*State)(nil)

// Session implements tasks.Sessions.
func (s *State) Session(ctx context.Context, owner, id string) (session []byte, version uint64, err error) {
	if !IsToken(id) { // a client has made it up
		return nil, 0, nil
	}
	sp, err := s.Space(ctx, owner)
	if err != nil {
		return nil, 0, err
	}
	return sp.Session(ctx, id)
}

// PutSession implements tasks.Sessions.
func (s *State) PutSession(ctx context.Context, owner, id string, session []byte,
	version uint64) (uint64, error) {
	sp, err := s.Space(ctx, owner)
	if err != nil {
		return 0, err
	}
	return sp.PutSession(ctx, id, session, version)
}

// DeleteSession implements tasks.Sessions.
func (s *State) DeleteSession(ctx context.Context, owner, id string) error {
	sp, err := s.Space(ctx, owner)
	if err != nil {
		return err
	}
	return sp.DeleteSession(ctx, id)
}
