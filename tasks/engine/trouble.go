package engine

import (
	"errors"
	"fmt"

	"runnel/tasks"
)

// Away is a tasks.ErrBusy: the servers do not answer. Engines return it with the reason.
type Away struct{ Err error }

func (a Away) Error() string { return a.Err.Error() }

func (a Away) Unwrap() error { return a.Err }

// Is reports that another try may succeed.
func (a Away) Is(target error) bool { return target == tasks.ErrBusy }

// ErrNoRoom is part of an engine's error if the server has no room for what is to be stored.
var ErrNoRoom = errors.New("the state is full")

// CheckSchema returns an error unless what is stored in a place has the version that this runnel knows.
func CheckSchema(place, found, known string) error {
	if found == known {
		return nil
	}
	return fmt.Errorf("%s has version %.32q, and this runnel knows %s: use the runnel that made it, or "+
		"another prefix (?prefix=NAME)", place, found, known)
}

// Removed is the error for a place whose content was deleted while this process used it.
func Removed(place string) error {
	return tasks.Trouble{Err: fmt.Errorf("%w: %s is gone; start runnel again, which makes a new one",
		tasks.ErrRemoved, place)}
}

// Newer is the error for a place that a newer runnel has changed while this process used it.
func Newer(place string) error {
	return tasks.Trouble{Err: fmt.Errorf("a newer runnel has changed how tasks are stored in %s: use that one", place)}
}
