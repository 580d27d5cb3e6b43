package partials

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"

	"runnel/rpc/mcp"
)

// Page is some segments in a row.
type Page struct {
	Content  []byte // a JSON array of segments, with seqNr if they were asked for
	Count    int
	Complete bool // nothing follows, ever
	IsError  bool // with Complete: the task failed

	last int64 // the number of the last segment, or of the one before the page if that is empty
}

// Ending is how a task's output ends.
type Ending struct {
	Rest    []json.RawMessage // content items, encoded, that the result has beyond the output: the last segments
	IsError bool
}

// numbering is where the segments of a log are. To read them may wait for the disk, so whoever reads has a copy of his own, and no lock.
type numbering struct {
	log    *Log
	ends   []int64 // ends[n-1] is where segment n ends in the log
	ending *Ending // nil until the work has returned: its items have the numbers after ends
}

// begin is where segment n begins in the log.
func (s *numbering) begin(n int64) int64 {
	if n == 1 {
		return 0
	}
	return s.ends[n-2]
}

// end is where the last segment ends in the log.
func (s *numbering) end() int64 { return s.begin(int64(len(s.ends)) + 1) }

// ended reports whether the segments after the log are known, and nothing comes before them.
func (s *numbering) ended() bool { return s.ending != nil && s.log.endsAt(s.end()) }

// item is segment n, as it stands in the log or in the ending, if it is an item of up to longest bytes.
func (s *numbering) item(n int64, longest int) []byte {
	if rest := int(n) - len(s.ends) - 1; rest >= 0 {
		return appendItem(nil, s.ending.Rest[rest], longest)
	}
	begin, end := s.begin(n), s.ends[n-1]
	b, ok := s.log.between(begin, end)
	if !ok {
		b = lostBatch(begin, end)
	}
	return appendItems(nil, &b, longest)
}

// page is the segments after number last, of about limit bytes.
func (s *numbering) page(last int64, limit int) Page {
	return s.fill(&collector{page: Page{Content: []byte{'['}}, limit: limit, numbered: true}, last)
}

// unnumbered is the page from the first segment on, without numbers. All that is gone is one item of it.
func (s *numbering) unnumbered(limit int) Page {
	c := &collector{page: Page{Content: []byte{'['}}, limit: limit}
	lost := s.log.lostTo()
	gone := sort.Search(len(s.ends), func(i int) bool { return s.ends[i] >= lost })
	if lost == 0 || gone == len(s.ends) {
		return s.fill(c, 0)
	}
	b := lostBatch(0, s.ends[gone])
	c.put(0, appendItems(nil, &b, math.MaxInt))
	c.page.Count = gone + 1
	return s.fill(c, int64(gone)+1)
}

// fill adds the segments after number last that have room.
func (s *numbering) fill(c *collector, last int64) Page {
	total, ended := int64(len(s.ends)), s.ended()
	if ended {
		total += int64(len(s.ending.Rest))
	}
	for last < total && c.add(last+1, s.item(last+1, c.longest())) {
		last++
	}
	p := &c.page
	p.Content, p.last = append(p.Content, ']'), last
	p.Complete = ended && last >= total
	p.IsError = p.Complete && s.ending.IsError
	return *p
}

// merged is [Segments.Merged].
func (s *numbering) merged(limit int) (items []byte, cut bool) {
	head := s.unnumbered(limit / 2)
	total := len(s.ends)
	if s.ending != nil {
		total += len(s.ending.Rest)
	}
	if head.Count == total {
		return head.Content, false
	}
	var tail [][]byte
	for n, size := total, 0; n > head.Count; n-- {
		item := s.item(int64(n), math.MaxInt)
		if size += len(item); size > limit/2 {
			break
		}
		tail = append(tail, item)
	}
	c := collector{page: Page{Content: head.Content[:len(head.Content)-1], Count: head.Count}}
	left := total - head.Count - len(tail)
	if left > 0 {
		c.put(0, fmt.Appendf(nil, `{"type":"text","text":"[%d segments of output are left out here]"}`, left))
	}
	for _, item := range slices.Backward(tail) {
		c.put(0, item)
	}
	return append(c.page.Content, ']'), left > 0
}

// collector makes a page.
type collector struct {
	page     Page
	limit    int
	begin    int // where the page begins in its content
	numbered bool
}

// numberBytes is about what a number adds to an item.
const numberBytes = 24

// longest is how long an item may be: nobody must be able to read a merged result as a line.
func (c *collector) longest() int {
	if c.numbered {
		return mcp.MaxContent
	}
	return math.MaxInt
}

// room reports whether n bytes more belong on the page. The first segment always has room.
func (c *collector) room(n int) bool {
	size := len(c.page.Content) - c.begin
	return c.page.Count == 0 || size+n+numberBytes <= c.limit
}

// add puts an item on the page if there is room.
func (c *collector) add(n int64, item []byte) bool {
	if !c.room(len(item)) {
		return false
	}
	c.put(n, item)
	return true
}

func (c *collector) put(n int64, item []byte) {
	p := &c.page
	if p.Count > 0 {
		p.Content = append(p.Content, ',')
	}
	p.Count++
	if c.numbered {
		p.Content = append(p.Content, `{"seqNr":`...)
		p.Content = strconv.AppendInt(p.Content, n, 10)
		if item = bytes.TrimSpace(item[1:]); item[0] != '}' {
			p.Content = append(p.Content, ',')
		}
	}
	p.Content = append(p.Content, item...)
}
