package partials

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"unicode/utf8"
)

// Extent is a part of a log that a backing keeps in one piece: whole chunks, and whole writes unless they are
// very long. A state stores Start, Marks and Data, and returns them from Backing.Load.
type Extent struct {
	Start int64  // position of the first byte of Data
	Marks []byte // where the chunks end and what they are, as Unsaved gave them
	Data  []byte

	decoded *block // set by Check
}

var errDamaged = errors.New("reading stored output: it is damaged")

// End is the position after the extent.
func (s *Extent) End() int64 { return s.Start + int64(len(s.Data)) }

// mark appends the mark of a chunk: its length, and four bits that say what it is.
func (s *Extent) mark(r *record, size int) {
	m := uint64(size)<<4 | uint64(r.kind)&1 | uint64(r.stream)&1<<1
	if r.more {
		m |= 1 << 2
	}
	if r.whole {
		m |= 1 << 3
	}
	s.Marks = binary.AppendUvarint(s.Marks, m)
}

// block decodes an extent, or returns an error if it is damaged.
func (s *Extent) block() (*block, error) {
	if s.decoded != nil {
		return s.decoded, nil
	}
	chunks := 0
	for _, m := range s.Marks {
		if m < 0x80 { // the last byte of a mark
			chunks++
		}
	}
	b := &block{start: s.Start, data: s.Data, records: make([]record, chunks)}
	at, rest := uint64(0), s.Marks
	for i := range b.records {
		m, n := binary.Uvarint(rest)
		if n <= 0 || m>>4 > uint64(len(s.Data))-at || uint64(len(s.Data)) > math.MaxUint32 {
			return nil, errDamaged
		}
		rest = rest[n:]
		at += m >> 4
		r := &b.records[i]
		r.end = uint32(at)
		r.kind = Kind(m & 1)
		r.stream = Stream(m >> 1 & 1)
		r.more = m&(1<<2) != 0
		r.whole = m&(1<<3) != 0
	}
	if len(rest) > 0 || at != uint64(len(s.Data)) || len(s.Data) == 0 {
		return nil, errDamaged
	}
	return b, nil
}

// Check returns an error if a stored extent is damaged: the marks must cover all the data, text must be
// UTF-8, and items must be JSON on one line.
// A state calls it on each extent that it reads, before Backing.Load returns it.
func (s *Extent) Check() error {
	b, err := s.block()
	if err != nil {
		return err
	}
	if !utf8.Valid(b.data) {
		return errDamaged
	}
	begin := uint32(0)
	for _, r := range b.records {
		data := b.data[begin:r.end]
		begin = r.end
		if len(data) > 0 && !utf8.RuneStart(data[0]) ||
			r.kind == Item && (bytes.IndexByte(data, '\n') >= 0 || !json.Valid(data)) {
			return errDamaged
		}
	}
	s.decoded = b
	return nil
}

// decode decodes extents, or returns an error if one of them is damaged.
func decode(extents []Extent) (blocks []*block, err error) {
	for i := range extents {
		b, err := extents[i].block()
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}
