package statetest

import (
	"context"

	"runnel/tasks"
)

// Patient returns a queue that tries again what the state refuses with tasks.ErrBusy: for a suite whose
// servers are killed while it runs.
func Patient(q tasks.Queue) tasks.Queue { return patient{q} }

type patient struct{ tasks.Queue }

func (p patient) Open(owner string) tasks.Store {
	return patientStore{p.Queue.Open(owner).(tasks.Shared)}
}

type patientStore struct{ tasks.Shared }

func (p patientStore) Put(ctx context.Context, t tasks.Task) error {
	return again(ctx, func() error { return p.Shared.Put(ctx, t) })
}

func (p patientStore) Get(ctx context.Context, id string) (t tasks.Task, err error) {
	err = again(ctx, func() (err error) { t, err = p.Shared.Get(ctx, id); return err })
	return t, err
}

func (p patientStore) Head(ctx context.Context, id string) (t tasks.Task, err error) {
	err = again(ctx, func() (err error) { t, err = p.Shared.Head(ctx, id); return err })
	return t, err
}

func (p patientStore) List(ctx context.Context, d tasks.Direction, from string, n int) (page []tasks.Task, next string, err error) {
	err = again(ctx, func() (err error) { page, next, err = p.Shared.List(ctx, d, from, n); return err })
	return page, next, err
}

func (p patientStore) Delete(ctx context.Context, id string) error {
	return again(ctx, func() error { return p.Shared.Delete(ctx, id) })
}

func (p patientStore) SetVariables(ctx context.Context, id string, patch []byte) (all []byte, err error) {
	err = again(ctx, func() (err error) { all, err = p.Shared.SetVariables(ctx, id, patch); return err })
	return all, err
}

func (p patientStore) MarkFetched(ctx context.Context, id string) error {
	return again(ctx, func() error { return p.Shared.MarkFetched(ctx, id) })
}

func (p patientStore) Ask(ctx context.Context, id string) error {
	return again(ctx, func() error { return p.Shared.Ask(ctx, id) })
}

func (p patientStore) Take(ctx context.Context, t tasks.Task, work []byte) (taken tasks.Task, err error) {
	err = again(ctx, func() (err error) { taken, err = p.Shared.Take(ctx, t, work); return err })
	return taken, err
}

func (p patientStore) Left(ctx context.Context) (left []tasks.Task, err error) {
	err = again(ctx, func() (err error) { left, err = p.Shared.Left(ctx); return err })
	return left, err
}

func (p patientStore) Watch(ctx context.Context, t *tasks.Task) error {
	return again(ctx, func() error { return p.Shared.Watch(ctx, t) })
}

func (p patientStore) Taken(ctx context.Context, id string) (is bool, err error) {
	err = again(ctx, func() (err error) { is, err = p.Shared.Taken(ctx, id); return err })
	return is, err
}

func (p patient) Offer(ctx context.Context, owner, id string, o tasks.Offer) error {
	return again(ctx, func() error { return p.Queue.Offer(ctx, owner, id, o) })
}

func (p patient) Next(ctx context.Context, owners, classes []string) (o *tasks.Offered, err error) {
	err = again(ctx, func() (err error) { o, err = p.Queue.Next(ctx, owners, classes); return err })
	return o, err
}

func (p patient) Announce(ctx context.Context, owner string, w *tasks.Worker) error {
	return again(ctx, func() error { return p.Queue.Announce(ctx, owner, w) })
}

func (p patient) Fleet(ctx context.Context, owner string) (workers []tasks.Worker, waiting map[string]tasks.Waiting, err error) {
	err = again(ctx, func() (err error) { workers, waiting, err = p.Queue.Fleet(ctx, owner); return err })
	return workers, waiting, err
}

func (p patient) Order(ctx context.Context, owner string, o tasks.Order) error {
	return again(ctx, func() error { return p.Queue.Order(ctx, owner, o) })
}

func (p patient) Withdraw(ctx context.Context, owner string, o tasks.Order) error {
	return again(ctx, func() error { return p.Queue.Withdraw(ctx, owner, o) })
}

func (p patient) Orders(ctx context.Context, owner string) (list []tasks.Order, err error) {
	err = again(ctx, func() (err error) { list, err = p.Queue.Orders(ctx, owner); return err })
	return list, err
}

func (p patient) Owners(ctx context.Context) (list []string, err error) {
	err = again(ctx, func() (err error) { list, err = p.Queue.Owners(ctx); return err })
	return list, err
}

func (p patient) Stored(ctx context.Context, owner string) (stored tasks.Storage, err error) {
	err = again(ctx, func() (err error) { stored, err = p.Queue.Stored(ctx, owner); return err })
	return stored, err
}
