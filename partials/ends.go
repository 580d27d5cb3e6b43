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
