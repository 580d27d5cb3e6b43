package partials

import (
	"encoding/binary"
	"errors"
	"math"
)

// ErrEnds reports that stored numbers of segments are damaged.
// A state tests for it to fail the damaged task instead of the read.
var ErrEnds = errors.New("the numbers of its segments cannot be read")

// EncodeEnds encodes where segments end (Segments.Given), for a state that stores it: as differences, the first one from last.
func EncodeEnds(last int64, ends []int64) (stored []byte) {
	for _, end := range ends {
		stored = binary.AppendVarint(stored, end-last)
		last = end
	}
	return stored
}

// DecodeEnds decodes what EncodeEnds has encoded, or fails with ErrEnds.
// A state calls it when it reads the numbers back.
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
