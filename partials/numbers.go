package partials

import (
	"encoding/binary"
	"errors"
	"math"
)

// ErrEnds reports that the stored numbers of segments are damaged.
// A state that gets it fails the damaged task, not the request.
var ErrEnds = errors.New("the numbers of its segments cannot be read")

// EncodeEnds encodes where segments end (Segments.Given): as differences, the first one from last.
// A state stores the result.
func EncodeEnds(last int64, ends []int64) (stored []byte) {
	for _, end := range ends {
		stored = binary.AppendVarint(stored, end-last)
		last = end
	}
	return stored
}

// decodeEnds decodes what EncodeEnds has encoded, or fails with ErrEnds.
func decodeEnds(last int64, stored []byte) (ends []int64, err error) {
	for len(stored) > 0 {
		d, size := binary.Varint(stored)
		if size <= 0 || d <= 0 || d > math.MaxInt64-last {
			return nil, ErrEnds
		}
		last += d
		ends = append(ends, last)
		stored = stored[size:]
	}
	return ends, nil
}

// Numbers collects where the segments of a task end, from stored rows that are read in order.
// A state reads them so.
type Numbers struct {
	After int   // the rows begin with the number after this one
	Last  int64 // where that segment ends
	End   int64 // where the log ends
	Known int   // so many numbers must be there at least, if the state knows

	ends []int64
}

// Add takes the row whose first number is first, as EncodeEnds has written it. It reports whether more may
// follow: no row does that was stored after the end of the log was read. It fails with ErrEnds.
func (x *Numbers) Add(first int64, row []byte) (more bool, err error) {
	if first < x.Next() { // an older one, or one that is stored twice
		return true, nil
	}
	ends, err := decodeEnds(x.Last, row)
	if err != nil || len(ends) == 0 || first != x.Next() {
		return false, ErrEnds
	}
	if end := ends[len(ends)-1]; end <= x.End {
		x.ends, x.Last = append(x.ends, ends...), end
		return true, nil
	}
	return false, nil
}

// Next is the number after those that are known.
func (x *Numbers) Next() int64 { return int64(x.After+len(x.ends)) + 1 }

// Complete reports whether all numbers were found that the state knows of.
func (x *Numbers) Complete() bool { return x.After+len(x.ends) >= x.Known }

// Ends returns what was collected, and fails with ErrEnds if that is not complete.
func (x *Numbers) Ends() ([]int64, error) {
	if !x.Complete() {
		return nil, ErrEnds
	}
	return x.ends, nil
}
