package partials

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"runnel/rpc/mcp"
)

// sep1905 is SEP-1905 streaming: responses with the call's own id, whose results carry partial-content. The
// last one says isComplete: true.
type sep1905 struct {
	segments *Segments
	head     []byte // a line up to the result's members
	meta     []byte // the result's last member

	pending Batch // read, but not yet sent: the beginning of the next segment

	// Used after Resume: what was sent on a lost connection does not count.
	resumed   bool
	last      int64 // the last number that was sent here
	completed bool  // isComplete: true was sent
}

// NewSEP1905 makes the dialect of SEP-1905
// (https://github.com/modelcontextprotocol/modelcontextprotocol/pull/1905) for one call; id is that of its
// request. Segments.Finish must be called before the log is closed.
func NewSEP1905(head []byte, id json.RawMessage, taskID string, segments *Segments) Dialect {
	return &sep1905{
		segments: segments,
		head:     fmt.Appendf(nil, `%s,"id":%s,"result":`, head, id),
		meta:     relatedTask(taskID),
	}
}

// Encode appends a response with the numbered segments up to the end of b that were not sent yet ("Never send
// the same seqNr through multiple mechanisms"), or several responses if they would not fit into one line.
func (d *sep1905) Encode(dst []byte, b Batch) []byte {
	s := d.segments
	if d.resumed {
		s.Number(b.End) // what cannot be read now comes with a later batch, or with the end
		return d.unsent(dst, s.numbers().upTo(b.End))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.frozen {
		s.numberBatch(b)
	}
	d.keepUnsent(b)
	c := d.page(dst)
	for s.last < int64(len(s.ends)) && s.ends[s.last] <= b.End {
		s.last++
		if item := d.item(s.last); !c.add(s.last, item) {
			c = d.page(d.close(c))
			c.append(s.last, item)
		}
	}
	d.pending.cut(s.begin(min(s.last, int64(len(s.ends))) + 1))
	rest := d.pending
	d.pending = Batch{}
	d.pending.copyFrom(rest) // the memory of b belongs to the reader
	if c.page.Count == 0 {
		return dst
	}
	return d.close(c)
}

// page begins a response after what is in dst.
func (d *sep1905) page(dst []byte) collector {
	dst = append(append(dst, d.head...), `{"partial-content":[`...)
	return collector{limit: mcp.MaxContent, begin: len(dst), page: Page{Content: dst}}
}

func (d *sep1905) close(c collector) []byte {
	dst := append(c.page.Content, `],"isError":false,"isComplete":false,"_meta":`...)
	dst = append(dst, d.meta...)
	return append(dst, '}', '}', '\n')
}

// keepUnsent keeps what was read until its whole segment has been read: a segment that got its number when it
// was stored may end in a later batch.
func (d *sep1905) keepUnsent(b Batch) {
	switch {
	case b.Lost:
		d.pending = Batch{}
	case len(d.pending.records) == 0 || d.pending.End != b.Start:
		d.pending = b
	default:
		d.pending.add(b)
	}
}

// item is segment n, from pending: reading it again might wait for the disk. s.mu is held.
func (d *sep1905) item(n int64) []byte {
	begin, end := d.segments.begin(n), d.segments.ends[n-1]
	d.pending.cut(begin)
	if d.pending.Start == begin {
		item := d.pending.cut(end)
		if d.pending.Start == end {
			return appendItems(nil, &item, mcp.MaxPassed)
		}
	}
	// A part of it is no longer kept, or cannot be read: a note says so.
	item, _ := d.segments.item(d.segments.log.ReaderAt(begin), n, mcp.MaxPassed)
	return item
}

// End appends what has not been sent yet and the end mark, unless the first response already had it: as one
// last response, or as several if they would not fit into one line.
func (d *sep1905) End(dst []byte) []byte {
	s := d.segments
	s.Number(math.MaxInt64) // without all numbers the end mark is left out, and the client asks for the rest
	if d.resumed {
		return d.unsent(dst, s.numbers())
	}
	s.mu.Lock()
	told := s.completed || s.ending == nil
	last := s.last
	numbers := s.numbering
	s.completed = s.completed || s.ending != nil
	s.mu.Unlock()
	if told {
		return dst
	}
	if last == 0 && len(numbers.ends) == 0 && numbers.ending.IsError {
		// "If no partial results were generated or only an error message is available, the response SHOULD
		// use standard content format with the error message"
		if page := numbers.standard(); len(page.Content) <= mcp.MaxContent {
			return d.end(dst, "content", page)
		}
	}
	for {
		page, err := numbers.page(last, mcp.MaxContent)
		dst = d.end(dst, "partial-content", page)
		if last = page.last; err != nil || page.Complete || page.Count == 0 {
			return dst
		}
	}
}

func (d *sep1905) Count() int64 {
	if d.resumed {
		return d.last
	}
	d.segments.mu.Lock()
	defer d.segments.mu.Unlock()
	return d.segments.last
}

func (d *sep1905) Resume(count int64) { d.resumed, d.last = true, count }

// unsent appends everything after the last number that was sent, and the end mark if the end is known.
func (d *sep1905) unsent(dst []byte, numbers numbering) []byte {
	for !d.completed {
		page, _ := numbers.page(d.last, mcp.MaxContent)
		if page.Count == 0 && !page.Complete {
			break
		}
		dst = d.end(dst, "partial-content", page)
		d.last, d.completed = page.last, page.Complete
	}
	return dst
}

func (d *sep1905) end(dst []byte, member string, page Page) []byte {
	dst = appendResult(append(dst, d.head...), member, page, d.meta)
	return append(dst, '}', '\n')
}

// appendResult appends a result that carries a page.
func appendResult(dst []byte, member string, page Page, meta []byte) []byte {
	dst = append(dst, `{"`...)
	dst = append(dst, member...)
	dst = append(dst, `":`...)
	dst = append(dst, page.Content...)
	dst = append(dst, `,"isError":`...)
	dst = strconv.AppendBool(dst, page.IsError)
	dst = append(dst, `,"isComplete":`...)
	dst = strconv.AppendBool(dst, page.Complete)
	dst = append(dst, `,"_meta":`...)
	dst = append(dst, meta...)
	return append(dst, '}')
}

// First returns the result of the streaming call itself: the task and its _meta, both encoded, and about
// limit bytes of the output so far. complete reports whether that is all.
func (s *Segments) First(task, meta []byte, limit int) (response json.RawMessage, complete bool) {
	_ = s.numberFor(0, limit)
	numbers := s.numbers()
	page, err := numbers.page(0, limit)
	if err != nil { // the client gets it when it resumes
		page = Page{}
	}
	s.sent(page, page.Complete)
	result := fmt.Appendf(nil, `{"task":%s`, task)
	if page.Count == 0 && !page.Complete {
		// "Return only task": an empty first page would leave the client nothing to resume from.
		return fmt.Appendf(result, `,"_meta":%s}`, meta), false
	}
	member := "partial-content"
	if page.IsError && len(numbers.ends) == 0 {
		member, page = "content", numbers.standard() // the page was complete, so everything is here
	}
	result = append(result, ',')
	return append(result, appendResult(nil, member, page, meta)[1:]...), page.Complete
}

// Resume returns the result of tasks/result with lastSeqNr. It fails like After.
func (s *Segments) Resume(last int64, taskID string, limit int) (json.RawMessage, error) {
	page, err := s.After(last, limit)
	if err != nil {
		return nil, err
	}
	return appendResult(nil, "partial-content", page, relatedTask(taskID)), nil
}
