package statetest

import (
	"context"

	"runnel/tasks"
)

// Patient returns a state that tries again what another one refuses with tasks.ErrBusy: for a suite whose
// servers are killed while it runs.
func Patient(q tasks.Queues) tasks.Queues { return patient{q} }

type patient struct{ tasks.Queues }

func (p patient) Open(owner string) tasks.Store {
	return patientQueue{p.Queues.Open(owner).(tasks.Queue)}
}

func (p patient) Next(ctx context.Context, owners, classes []string) (o *tasks.Offered, err error) {
	err = again(ctx, func() (err error) { o, err = p.Queues.Next(ctx, owners, classes); return err })
	return o, err
}

func (p patient) Owners(ctx context.Context) (list []string, err error) {
	err = again(ctx, func() (err error) { list, err = p.Queues.Owners(ctx); return err })
	return list, err
}

type patientQueue struct{ tasks.Queue }

func (p patientQueue) Put(ctx context.Context, t tasks.Task) error {
	return again(ctx, func() error { return p.Queue.Put(ctx, t) })
}

func (p patientQueue) Get(ctx context.Context, id string) (t tasks.Task, err error) {
	err = again(ctx, func() (err error) { t, err = p.Queue.Get(ctx, id); return err })
	return t, err
}

func (p patientQueue) Head(ctx context.Context, id string) (t tasks.Task, err error) {
	err = again(ctx, func() (err error) { t, err = p.Queue.Head(ctx, id); return err })
	return t, err
}

func (p patientQueue) List(ctx context.Context, d tasks.Direction, from string, n int) (page []tasks.Task, next string, err error) {
	err = again(ctx, func() (err error) { page, next, err = p.Queue.List(ctx, d, from, n); return err })
	return page, next, err
}

func (p patientQueue) Delete(ctx context.Context, id string) error {
	return again(ctx, func() error { return p.Queue.Delete(ctx, id) })
}

func (p patientQueue) SetVariables(ctx context.Context, id string, patch []byte) (all []byte, err error) {
	err = again(ctx, func() (err error) { all, err = p.Queue.SetVariables(ctx, id, patch); return err })
	return all, err
}

func (p patientQueue) MarkFetched(ctx context.Context, id string) error {
	return again(ctx, func() error { return p.Queue.MarkFetched(ctx, id) })
}

func (p patientQueue) Ask(ctx context.Context, id string) error {
	return again(ctx, func() error { return p.Queue.Ask(ctx, id) })
}

func (p patientQueue) Take(ctx context.Context, t tasks.Task, work []byte) (taken tasks.Task, err error) {
	err = again(ctx, func() (err error) { taken, err = p.Queue.Take(ctx, t, work); return err })
	return taken, err
}

func (p patientQueue) Left(ctx context.Context) (left []tasks.Task, err error) {
	err = again(ctx, func() (err error) { left, err = p.Queue.Left(ctx); return err })
	return left, err
}

func (p patientQueue) Watch(ctx context.Context, t *tasks.Task) error {
	return again(ctx, func() error { return p.Queue.Watch(ctx, t) })
}

func (p patientQueue) Taken(ctx context.Context, id string) (is bool, err error) {
	err = again(ctx, func() (err error) { is, err = p.Queue.Taken(ctx, id); return err })
	return is, err
}

func (p patientQueue) Offer(ctx context.Context, id string, o tasks.Offer) error {
	return again(ctx, func() error { return p.Queue.Offer(ctx, id, o) })
}

func (p patientQueue) PutOffered(ctx context.Context, t tasks.Task, o tasks.Offer) error {
	return again(ctx, func() error { return p.Queue.PutOffered(ctx, t, o) })
}

func (p patientQueue) Announce(ctx context.Context, w *tasks.Worker) error {
	return again(ctx, func() error { return p.Queue.Announce(ctx, w) })
}

func (p patientQueue) Fleet(ctx context.Context) (workers []tasks.Worker, waiting map[string]tasks.Waiting, err error) {
	err = again(ctx, func() (err error) { workers, waiting, err = p.Queue.Fleet(ctx); return err })
	return workers, waiting, err
}

func (p patientQueue) Order(ctx context.Context, o tasks.Order) error {
	return again(ctx, func() error { return p.Queue.Order(ctx, o) })
}

func (p patientQueue) Withdraw(ctx context.Context, o tasks.Order) error {
	return again(ctx, func() error { return p.Queue.Withdraw(ctx, o) })
}

func (p patientQueue) Orders(ctx context.Context) (list []tasks.Order, err error) {
	err = again(ctx, func() (err error) { list, err = p.Queue.Orders(ctx); return err })
	return list, err
}

func (p patientQueue) Stored(ctx context.Context) (stored tasks.Storage, err error) {
	err = again(ctx, func() (err error) { stored, err = p.Queue.Stored(ctx); return err })
	return stored, err
}
