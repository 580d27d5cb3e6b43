package engine

import "runnel/tasks"

// Away is a tasks.ErrBusy: the servers do not answer. Engines return it with the reason.
type Away struct{ Err error }

func (a Away) Error() string { return a.Err.Error() }

func (a Away) Unwrap() error { return a.Err }

// Is reports that another try may succeed.
func (a Away) Is(target error) bool { return target == tasks.ErrBusy }
