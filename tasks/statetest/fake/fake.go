// Package fake makes states for tests that replace some methods of a store.
package fake

import (
	"context"
	"errors"

	"runnel/tasks"
)

// State returns a state in which all owners have the same store.
func State(s tasks.Store) tasks.State { return state{s} }

type state struct{ store tasks.Store }

func (s state) Open(string) tasks.Store { return s.store }

func (state) Close() error { return nil }

// Memory returns the store of the default owner in memory.
func Memory() Alone { return Alone{tasks.NewMemory().Open(tasks.DefaultOwner)} }

// Alone is a tasks.Shared that only one process uses.
type Alone struct{ tasks.Store }

// Ask implements tasks.Shared.
func (Alone) Ask(context.Context, string) error { return nil }

// Heed implements tasks.Shared: there are no requests.
func (Alone) Heed(ctx context.Context) (asked, fenced []string, err error) {
	<-ctx.Done()
	return nil, nil, context.Cause(ctx)
}

// Take implements tasks.Shared.
func (Alone) Take(context.Context, tasks.Task, []byte) (tasks.Task, error) {
	return tasks.Task{}, errors.ErrUnsupported
}

// Taken implements tasks.Shared.
func (Alone) Taken(context.Context, string) (bool, error) { return false, nil }

// Left implements tasks.Shared.
func (Alone) Left(context.Context) ([]tasks.Task, error) { return nil, nil }

// Watch implements tasks.Shared.
func (Alone) Watch(context.Context, *tasks.Task) error { return tasks.ErrNotFound }

// Lapsed implements tasks.Shared.
func (Alone) Lapsed() error { return nil }
