package engine

import "runnel/partials"

// Numbers collects where the segments of a task end, from the rows that an engine has stored and reads in order, for Store.Ends.
type Numbers struct {
	Record *Record
	After  int   // the rows begin with the number after this one
	Last   int64 // where that segment ends

	ends []int64
}

// Add takes the row of the numbers from first to last, as partials.EncodeEnds has written it. It reports whether more may follow: none does
// that was stored since the end of the log was read. It fails with partials.ErrEnds.
func (x *Numbers) Add(first, last int64, row []byte) (more bool, err error) {
	given := int64(x.After + len(x.ends))
	ends, err := partials.DecodeEnds(x.Last, row)
	if err != nil || len(ends) == 0 || first != given+1 || last != given+int64(len(ends)) {
		return false, partials.ErrEnds
	}
	if end := ends[len(ends)-1]; end <= x.Record.End {
		x.ends, x.Last = append(x.ends, ends...), end
		return true, nil
	}
	return false, nil
}

// Ends returns what was collected, and fails with partials.ErrEnds if the record knows of more.
func (x *Numbers) Ends() ([]int64, error) {
	if x.After+len(x.ends) < x.Record.Stored.Numbered {
		return x.ends, partials.ErrEnds
	}
	return x.ends, nil
}
