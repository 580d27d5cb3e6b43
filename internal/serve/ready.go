package serve

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"runnel/tasks"
)

// readiness says to balancers and to those that start processes whether this one can be sent calls: its state
// answers and, for a worker, it takes calls.
type readiness struct {
	store tasks.Store
	takes func() int // how many tasks a worker runs at once; nil = this is not a worker
	log   zerolog.Logger

	mu  sync.Mutex // held while the state is asked, on behalf of all
	at  time.Time
	err error
}

const (
	// readyWait is how long the state may take to answer.
	readyWait = 2 * time.Second
	// readyPace is how long an answer counts: anyone may ask, as often as they like.
	readyPace = time.Second
)

// ready returns nil, or an error that anyone may read.
func (r *readiness) ready(ctx context.Context) error {
	if r.takes != nil && r.takes() == 0 {
		return errors.New("this worker takes no more calls")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.at) < readyPace {
		return r.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyWait)
	defer cancel()
	_, _, err := r.store.List(ctx, tasks.OldestFirst, "", 1)
	// Servers without a majority answer, and store nothing.
	if shared, ok := r.store.(tasks.Shared); ok && err == nil {
		err = shared.Lapsed()
	}
	if r.at, r.err = time.Now(), nil; err != nil {
		r.err = errors.New("the state does not answer")
		r.log.Warn().Err(err).Msg("not ready: the state does not answer")
	}
	return r.err
}
