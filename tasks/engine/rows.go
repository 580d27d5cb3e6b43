package engine

import (
	"errors"

	"runnel/partials"
)

// Numbers collects where the segments of a task end, from the rows that an engine has stored and reads in
// order, for Store.Ends.
type Numbers struct {
	Record *Record
	After  int   // the rows begin with the number after this one
	Last   int64 // where that segment ends

	ends []int64
}

// Add takes the row whose first number is first, as partials.EncodeEnds has written it. It reports whether
// more may follow: no row does that was stored after the end of the log was read. It fails with
// partials.ErrEnds.
func (x *Numbers) Add(first int64, row []byte) (more bool, err error) {
	if first < x.Next() { // an older one, or one that is stored twice
		return true, nil
	}
	ends, err := partials.DecodeEnds(x.Last, row)
	if err != nil || len(ends) == 0 || first != x.Next() {
		return false, partials.ErrEnds
	}
	if end := ends[len(ends)-1]; end <= x.Record.End {
		x.ends, x.Last = append(x.ends, ends...), end
		return true, nil
	}
	return false, nil
}

// Next is the number after those that are known.
func (x *Numbers) Next() int64 { return int64(x.After+len(x.ends)) + 1 }

// Complete reports whether all numbers were found that the record knows of.
func (x *Numbers) Complete() bool { return x.After+len(x.ends) >= x.Record.Stored.Numbered }

// Ends returns what was collected, and fails with partials.ErrEnds if that is not complete.
func (x *Numbers) Ends() ([]int64, error) {
	if !x.Complete() {
		return nil, partials.ErrEnds
	}
	return x.ends, nil
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
