package feed

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"runnel/partials"
	"runnel/rpc"
)

// A mark goes with each line that a feed writes about a task if its client can lose the connection and come
// back (rpc.Caller.Marks). It holds everything that another process needs to continue after that line
// (resume.go), so that a stream needs no storage beside the task's log. It grants no access: only tasks of
// the requesting owner are found.
//
//	base64(origin) . position in the log . Dialect.Count . lines after the end of the output

// origin says how a feed spells its output. It is the part of a mark that is the same for all lines.
type origin struct {
	Task     string          `json:"t,omitempty"` // "": the client knows no handle
	Spelling Spelling        `json:"s"`
	Request  json.RawMessage `json:"r,omitempty"` // the id, if lines carry it
	Token    json.RawMessage `json:"p,omitempty"` // of progress
	Relays   bool            `json:"w,omitempty"` // see Feed.Relays
}

// place is how far a feed has come.
type place struct {
	origin
	pos, count int64
	// Lines written after the end of the output: those that end the dialect, then the terminal status.
	closing int
}

const (
	// maxOrigin bounds a mark, in bytes: it goes with each line, and the client chooses the ids in it. A
	// longer mark is omitted.
	maxOrigin = 512
	// closed is place.closing after the terminal status.
	closed = math.MaxInt32
	// noMark marks a line that cannot be continued after, because the next one belongs to it.
	noMark = "-"
)

// marked is a dialect whose lines have marks. It is only used on the writer's goroutine.
type marked struct {
	partials.Dialect
	origin string
	pos    int64 // in the log
}

// newMarked adds marks to a dialect. It returns nil if the caller has no marks, or they would be too long.
func newMarked(c *rpc.Caller, d partials.Dialect, o origin, pos int64) *marked {
	if !c.Marks() {
		return nil
	}
	text, err := json.Marshal(o)
	if err != nil || len(text) > maxOrigin {
		return nil
	}
	return &marked{d, base64.RawURLEncoding.EncodeToString(text), pos}
}

func (m *marked) mark(count int64, closing int) string {
	return m.origin + "." + strconv.FormatInt(m.pos, 10) + "." + strconv.FormatInt(count, 10) + "." +
		strconv.Itoa(closing)
}

// last is the mark of the terminal status, after which nothing comes.
func (m *marked) last() string { return m.origin + ".0.0." + strconv.Itoa(closed) }

// now is the mark of a line that is written at this moment.
func (m *marked) now() string { return m.mark(m.Count(), 0) }

func (m *marked) Encode(dst []byte, b partials.Batch) []byte {
	begin := len(dst)
	dst = m.Dialect.Encode(dst, b)
	m.pos = b.End
	return m.insert(dst, begin, m.now)
}

func (m *marked) End(dst []byte) []byte { return m.closing(dst, 0) }

// closing appends the lines that end the dialect, except for those that were written before.
func (m *marked) closing(dst []byte, written int) []byte {
	count := m.Count()
	for i, line := range slices.Collect(bytes.Lines(m.Dialect.End(nil))) {
		if i >= written {
			dst = append(append(dst, m.mark(count, i+1)...), line...)
		}
	}
	return dst
}

// insert marks the last of the lines from begin on, and gives the others noMark.
func (m *marked) insert(dst []byte, begin int, mark func() string) []byte {
	for begin < len(dst) {
		text, end := noMark, begin+bytes.IndexByte(dst[begin:], '\n')+1
		if end == len(dst) {
			text = mark()
		}
		dst = slices.Insert(dst, begin, []byte(text)...)
		begin = end + len(text)
	}
	return dst
}

var errMark = errors.New("it does not name a stream to resume")

// parseMark parses a mark.
func parseMark(text string) (p place, err error) {
	parts := strings.Split(text, ".")
	if len(parts) != 4 {
		return p, errMark
	}
	encoded, err := base64.RawURLEncoding.DecodeString(parts[0])
	if err != nil || json.Unmarshal(encoded, &p.origin) != nil || !isID(p.Request) || !isID(p.Token) ||
		p.Task == "" {
		return p, errMark
	}
	switch p.Spelling {
	case SEP2679:
	case SEP1905:
		if p.Request == nil {
			return p, errMark
		}
	case PR383, ByProgress:
		if p.Token == nil {
			return p, errMark
		}
	default:
		return p, errMark
	}
	var numbers [3]int64
	for i := range numbers {
		n, err := strconv.ParseUint(parts[i+1], 10, 52)
		if err != nil {
			return p, errMark
		}
		numbers[i] = int64(n)
	}
	p.pos = numbers[0]
	p.count = numbers[1]
	p.closing = int(min(numbers[2], closed))
	return p, nil
}

// isID reports whether a part of a mark is absent, or valid as an id.
func isID(raw json.RawMessage) bool {
	return raw == nil || raw[0] == '"' || raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9'
}
