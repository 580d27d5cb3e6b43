package engine

import (
	"errors"

	"runnel/partials"
)

// Numbers returns a collector for the numbers of a task's segments after number n, whose segment ends at
// position last.
func (r *Record) Numbers(n int, last int64) partials.Numbers {
	return partials.Numbers{After: n, Last: last, End: r.End, Known: r.Stored.Numbered}
}

// Extents collects extents that an engine reads in order, for partials.Backing: those after a position, up to
// a gap. A damaged extent is reported and skipped.
type Extents struct {
	List []partials.Extent

	after  int64
	damage func(error)
	gap    bool
}

// Add takes the next extent as it was read, and reports whether it was added.
func (x *Extents) Add(e partials.Extent, err error) bool {
	n := len(x.List)
	if err == nil {
		err = e.Check()
	}
	if err == nil && n > 0 && e.Start < x.List[n-1].End() {
		err = errors.New("it overlaps what is before it")
	}
	if err != nil {
		x.damage(err) // it counts as no longer kept
		return false
	}
	x.gap = x.gap || n > 0 && x.List[n-1].End() != e.Start // the rest is read separately
	if x.gap || e.End() <= x.after {
		return false
	}
	x.List = append(x.List, e)
	return true
}
