package engine

import (
	"bytes"
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"runnel/tasks"
)

// stuck is a crowd whose tasks of one owner are not to be reached.
type stuck struct{ crowd }

func (s *stuck) Open(ctx context.Context, sp *Space) (Driver, Queue, error) {
	if sp.Owner == "stuck" {
		<-ctx.Done()
		return nil, nil, context.Cause(ctx)
	}
	return &s.crowd, nil, nil
}

// flaky is a crowd whose server is away.
type flaky struct {
	crowd
	away atomic.Bool
}

func (f *flaky) Open(context.Context, *Space) (Driver, Queue, error) { return f, nil, nil }

func (f *flaky) Lease(context.Context) error {
	if f.away.Load() {
		return tasks.ErrBusy
	}
	return nil
}

// A state that is away is told once, and when it is back, with how often it was missed.
func TestAwayIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		f := &flaky{}
		s := New(f, "nowhere", Options{Log: zerolog.New(zerolog.SyncWriter(&log))})
		if err := s.Space("local").Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, f := range []func(){func() { f.away.Store(true) }, func() { f.away.Store(false) }} {
			f()
			time.Sleep(10*RenewInterval + time.Second)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if lines := strings.Split(log.String(), "\n"); len(lines) != 3 ||
			!strings.Contains(lines[0], `"warn"`) || !strings.Contains(lines[1], `"failed":10`) {
			t.Errorf("%s", &log)
		}
	})
}

// An owner whose tasks are long in coming keeps nobody else waiting, nor who has met an owner before.
func TestOpeningKeepsNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(&stuck{}, "nowhere", Options{})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Space("stuck").Ready(ctx) }()
		synctest.Wait()
		for range 2 { // the first time it is opened
			began := time.Now()
			if err := s.Space("quick").Ready(t.Context()); err != nil || time.Since(began) > 0 {
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
