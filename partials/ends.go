package partials

import (
	"encoding/binary"
	"errors"
	"math"
)

// ErrEnds says that stored numbers of segments are damaged.
var ErrEnds = errors.New("the numbers of its segments cannot be read")

// EncodeEnds spells where segments end (Segments.Given), for a state that stores it: as differences, the first one from last.
func EncodeEnds(last int64, ends []int64) (stored []byte) {
	for _, end := range ends {
		stored = binary.AppendVarint(stored, end-last)
		last = end
	}
	return stored
}

// DecodeEnds reads what EncodeEnds has spelled, or fails with ErrEnds.
func DecodeEnds(last int64, stored []byte) (ends []int64, err error) {
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
