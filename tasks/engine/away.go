package engine

import "runnel/tasks"

// Away is the tasks.ErrBusy of servers that do not answer.
type Away struct{ Err error }

func (a Away) Error() string { return a.Err.Error() }

func (a Away) Unwrap() error { return a.Err }

// Is reports that the same may succeed when it is tried again.
func (a Away) Is(target error) bool { return target == tasks.ErrBusy }
