package partials

import (
	"bytes"
	"encoding/json"
	"math"
	"sort"
	"strconv"

	"runnel/internal/shorten"
	"runnel/rpc/mcp"
)

// Page is a run of consecutive segments.
// Segments.After returns it, for the answer to a request for segments.
type Page struct {
	Content  []byte // a JSON array of segments
	Count    int
	Complete bool // nothing will ever follow
	IsError  bool // with Complete: the task failed

	last int64 // the number of the last segment; of the one before the page if the page is empty
}

// Ending is how a task's output ends.
// Pass it to Segments.Finish when the work has returned.
type Ending struct {
	// The items of the result that do not repeat the output, encoded: the last segments.
	Rest    []json.RawMessage
	IsError bool
}

// numbering says where the segments of a log end. Reading them may wait for the disk, so it is done with a
// copy and without a lock.
type numbering struct {
	log    *Log
	ends   []int64 // ends[n-1] is where segment n ends in the log
	ending *Ending // nil until the work has returned; its items get the numbers after ends
}

// begin is the position in the log at which segment n begins.
func (s *numbering) begin(n int64) int64 {
	if n == 1 {
		return 0
	}
	return s.ends[n-2]
}

// end is the position in the log at which the last segment ends.
func (s *numbering) end() int64 { return s.begin(int64(len(s.ends)) + 1) }

// ended reports whether all segments are known: those of the whole log, and those of the ending.
func (s *numbering) ended() bool { return s.ending != nil && s.log.endsAt(s.end()) }

// upTo is the numbering of the segments that end at a position or before.
func (s numbering) upTo(end int64) numbering {
	after := sort.Search(len(s.ends), func(i int) bool { return s.ends[i] > end })
	return numbering{log: s.log, ends: s.ends[:after]}
}

// item is segment n, from the log, which r reads, or from the ending. A note replaces one that has more than
// longest bytes, is no longer kept or, with an error, could not be read.
func (s *numbering) item(r *Reader, n int64, longest int) ([]byte, error) {
	if rest := int(n) - len(s.ends) - 1; rest >= 0 {
		return appendItem(nil, s.ending.Rest[rest], longest), nil
	}
	b, err := r.between(s.begin(n), s.ends[n-1])
	return appendItems(nil, &b, longest), err
}

// page returns the segments after number last, of about limit bytes. With an error the page ends before a
// segment that could not be read.
func (s *numbering) page(last int64, limit int) (_ Page, err error) {
	c := collector{page: Page{Content: []byte{'['}}, limit: limit}
	total, ended := int64(len(s.ends)), s.ended()
	if ended {
		total += int64(len(s.ending.Rest))
	}
	for r := s.log.ReaderAt(0); last < total; last++ {
		var item []byte
		if item, err = s.item(r, last+1, mcp.MaxPassed); err != nil || !c.add(last+1, item) {
			break
		}
	}
	p := c.page
	p.Content, p.last = append(p.Content, ']'), last
	p.Complete = ended && last >= total
	p.IsError = p.Complete && s.ending.IsError
	return p, err
}

// standard returns an output that consists only of its ending, in the standard format: without numbers.
func (s *numbering) standard() Page {
	return Page{Content: appendArray(nil, s.ending.Rest), Complete: true, IsError: s.ending.IsError}
}

// merged is [Segments.Merged].
func (s *numbering) merged(limit int) (items []byte, cut bool, err error) {
	total := len(s.ends)
	if s.ending != nil {
		total += len(s.ending.Rest)
	}
	var head, tail []json.RawMessage
	next, size := 1, 0
	r := s.log.ReaderAt(0)
	lost := s.log.lostTo()
	if gone := sort.Search(len(s.ends), func(i int) bool { return s.ends[i] >= lost }); lost > 0 &&
		gone < len(s.ends) {
		// Everything that is gone becomes one item.
		b := lostBatch(0, s.ends[gone])
		// ends[gone] is where segment gone+1 ends.
		head, next = append(head, appendItems(nil, &b, math.MaxInt)), gone+2
	}
	for ; next <= total; next++ {
		item, err := s.item(r, int64(next), math.MaxInt)
		if err != nil {
			return nil, false, err
		}
		if size += len(item); size > limit/2 && len(head) > 0 {
			break
		}
		head = append(head, item)
	}
	// The tail is read forwards from where it may begin: an item takes no fewer bytes than its output.
	from := max(next, 1+sort.Search(len(s.ends),
		func(i int) bool { return s.end()-s.begin(int64(i)+1) <= int64(limit/2) }))
	size = 0
	for n := from; n <= total; n++ {
		item, err := s.item(r, int64(n), math.MaxInt)
		if err != nil {
			return nil, false, err
		}
		for tail, size = append(tail, item), size+len(item); size > limit/2; tail = tail[1:] {
			size -= len(tail[0])
		}
	}
	left := total + 1 - next - len(tail)
	if left > 0 {
		head = append(head, mcp.Text(shorten.LeftOut(int64(left), "segments", "")))
	}
	return appendArray(nil, append(head, tail...)), left > 0, nil
}

// appendArray appends items as a JSON array.
func appendArray(dst []byte, items []json.RawMessage) []byte {
	dst = append(dst, '[')
	for i, item := range items {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, item...)
	}
	return append(dst, ']')
}

// collector makes a page.
type collector struct {
	page  Page
	limit int
	begin int // where the page begins in Content
}

// numberBytes is about how much a number adds to an item.
const numberBytes = 24

// add puts an item on the page if it fits. The first one always does.
func (c *collector) add(n int64, item []byte) bool {
	if c.page.Count > 0 && len(c.page.Content)-c.begin+len(item)+numberBytes > c.limit {
		return false
	}
	c.append(n, item)
	return true
}

func (c *collector) append(n int64, item []byte) {
	p := &c.page
	if p.Count > 0 {
		p.Content = append(p.Content, ',')
	}
	p.Count++
	p.Content = append(p.Content, `{"seqNr":`...)
	p.Content = strconv.AppendInt(p.Content, n, 10)
	if item = bytes.TrimSpace(item[1:]); item[0] != '}' {
		p.Content = append(p.Content, ',')
	}
	p.Content = append(p.Content, item...)
}
