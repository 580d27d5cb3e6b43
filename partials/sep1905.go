package partials

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// sep1905 is SEP-1905 streaming: responses with the call's own id, whose results carry partial-content. The end of the
// output is isComplete: true.
type sep1905 struct {
	segments *Segments
	head     []byte // a line up to the result's members
	meta     []byte // the result's last member
}

// NewSEP1905 makes the dialect of SEP-1905 for one call with the id of its request. Segments must be finished
// before the log is closed.
func NewSEP1905(head []byte, id json.RawMessage, taskID string, segments *Segments) Dialect {
	return &sep1905{
		segments: segments,
		head:     fmt.Appendf(nil, `%s,"id":%s,"result":`, head, id),
		meta:     relatedTask(taskID),
	}
}

func (d *sep1905) Encode(dst []byte, b Batch) []byte {
	s := d.segments
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.given {
		return d.push(dst, b.End)
	}
	first := int64(len(s.ends))
	if b = behind(b, s.end()); len(b.Chunks) == 0 {
		return dst // fetched by tasks/result before its turn came: "Never send the same seqNr through multiple mechanisms"
	}
	s.numberBatch(b)
	dst = append(dst, d.head...)
	dst = append(dst, `{"partial-content":[`...)
	pos := b.Start
	for i, n := 0, first; n < int64(len(s.ends)); n++ {
		begin := i
		if b.Lost {
			i, pos = 1, b.End
		}
		for pos < s.ends[n] {
			pos += int64(len(b.Chunks[i].Data))
			i++
		}
		if n > first {
			dst = append(dst, ',')
		}
		c := collector{numbered: true, page: Page{Content: dst}}
		item := appendContent(nil, b.Chunks[begin:i])
		c.put(n+1, item[1:len(item)-1])
		dst = c.page.Content
	}
	dst = append(dst, `],"isError":false,"isComplete":false,"_meta":`...)
	dst = append(dst, d.meta...)
	return append(dst, '}', '}', '\n')
}

// push appends what was given numbers elsewhere, was not sent yet and ends at position end or before. s.mu is held.
func (d *sep1905) push(dst []byte, end int64) []byte {
	s := d.segments
	c := collector{numbered: true, limit: maxWeight, page: Page{Content: []byte{'['}}}
	for s.last < int64(len(s.ends)) && s.ends[s.last] <= end && c.add(s.last+1, s.logged(s.last+1, maxItem)) {
		s.last++
	}
	if c.page.Count == 0 {
		return dst
	}
	c.page.Content = append(c.page.Content, ']')
	return d.end(dst, "partial-content", c.page)
}

// End appends what nobody was sent yet, and the end, unless the first response told it: the last response, or more
// than one if it would not fit into a line.
func (d *sep1905) End(dst []byte) []byte {
	s := d.segments
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sent || s.ending == nil {
		return dst
	}
	s.sent = true
	if len(s.ends) == 0 && s.rest == 0 && s.ending.IsError {
		// "If no partial results were generated or only an error message is available, the response SHOULD use
		// standard content format with the error message"
		page := s.after(0, maxWeight, false)
		if len(page.Content) <= maxItem {
			return d.end(dst, "content", page)
		}
	}
	for {
		page := s.after(s.behindSent(), maxWeight, true)
		dst = d.end(dst, "partial-content", page)
		if page.Complete || page.Count == 0 {
			return dst
		}
	}
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

// First is the result of the streaming call itself: the task and its _meta, both encoded, and what there is of its
// output, about limit bytes.
func (s *Segments) First(task, meta []byte, limit int) json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	page := s.after(0, limit, true)
	result := fmt.Appendf(nil, `{"task":%s`, task)
	if page.Count == 0 && !page.Complete {
		// "Return only task": an empty first page would leave nothing to resume from.
		return fmt.Appendf(result, `,"_meta":%s}`, meta)
	}
	member := "partial-content"
	if page.IsError && len(s.ends) == 0 {
		member, page = "content", s.after(0, limit, false) // all of it was on the page, so it is here
	}
	s.sent = s.sent || page.Complete
	result = append(result, ',')
	return append(result, appendResult(nil, member, page, meta)[1:]...)
}

// Resume is the result of tasks/result with lastSeqNr.
func (s *Segments) Resume(last int64, taskID string, limit int) json.RawMessage {
	return appendResult(nil, "partial-content", s.After(last, limit), relatedTask(taskID))
}

func relatedTask(id string) []byte {
	quoted, _ := json.Marshal(id)
	return fmt.Appendf(nil, `{"io.modelcontextprotocol/related-task":{"taskId":%s}}`, quoted)
}

// behind is the part of a batch that comes at or after pos.
func behind(b Batch, pos int64) Batch {
	if b.Lost && b.End <= pos {
		b.Chunks = nil
	}
	if b.Lost {
		return b
	}
	for len(b.Chunks) > 0 && b.Start < pos {
		c := &b.Chunks[0]
		if left := pos - b.Start; left < int64(len(c.Data)) {
			c.Data = c.Data[left:]
			b.Start = pos
		} else {
			b.Start += int64(len(c.Data))
			b.Chunks = b.Chunks[1:]
		}
	}
	return b
}

// Segment is one content item of a SEP-1905 stream.
type Segment struct {
	SeqNr int64
	Item  json.RawMessage // with its seqNr
}

// StreamingResult is what a result with partial-content holds.
type StreamingResult struct {
	Segments   []Segment
	IsError    bool
	IsComplete bool
}

// DecodeSEP1905 reads a response that carries partial-content.
func DecodeSEP1905(line []byte) (StreamingResult, error) {
	var m struct {
		Result struct {
			Content    []json.RawMessage `json:"partial-content"`
			IsError    bool              `json:"isError"`
			IsComplete bool              `json:"isComplete"`
		} `json:"result"`
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return StreamingResult{}, fmt.Errorf("reading a streaming response: %w", err)
	}
	r := StreamingResult{IsError: m.Result.IsError, IsComplete: m.Result.IsComplete}
	for _, item := range m.Result.Content {
		var n struct {
			SeqNr int64 `json:"seqNr"`
		}
		if err := json.Unmarshal(item, &n); err != nil || n.SeqNr < 1 {
			return StreamingResult{}, fmt.Errorf("reading a streaming response: seqNr %d must be 1 or more", n.SeqNr)
		}
		r.Segments = append(r.Segments, Segment{SeqNr: n.SeqNr, Item: item})
	}
	return r, nil
}
