package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// stuck is a crowd whose tasks of one owner are not to be reached.
type stuck struct{ crowd }

func (s *stuck) Open(ctx context.Context, sp *Space) (Store, Queue, error) {
	if sp.Owner == "stuck" {
		<-ctx.Done()
		return nil, nil, context.Cause(ctx)
	}
	return &s.crowd, nil, nil
}

// An owner whose tasks are long in coming keeps nobody else waiting, nor who has met an owner before.
func TestOpeningKeepsNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(&stuck{}, "nowhere", Options{})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := s.Space(ctx, "stuck")
			ended <- err
		}()
		synctest.Wait()
		for range 2 { // the first time it is opened
			began := time.Now()
			if _, err := s.Space(t.Context(), "quick"); err != nil || time.Since(began) > 0 {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		}
		stop()
		if err := <-ended; err == nil {
			t.Error("the stuck owner was opened")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
