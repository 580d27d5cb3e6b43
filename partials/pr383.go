package partials

import (
	"fmt"

	"runnel/rpc/mcp"
)

// pr383 is PR #383: partial results inside progress notifications. They share a counter with the tool's
// progress reports, since both are notifications for the same token.
type pr383 struct {
	progress *Progress
	ending   func() Ending
	begun    bool
}

// NewPR383 makes the dialect of PR #383
// (https://github.com/modelcontextprotocol/modelcontextprotocol/pull/383) on top of the progress of the same
// request. ending is called once, at the end of the output, for the part of the result beyond it.
func NewPR383(progress *Progress, ending func() Ending) Dialect {
	return &pr383{progress: progress, ending: ending}
}

func (d *pr383) Encode(dst []byte, b Batch) []byte {
	if len(b.records) == 0 {
		return dst
	}
	return d.chunk(dst, appendContent(nil, &b), false)
}

// End appends the last chunk, whose content may be empty. Content that does not fit into its line goes before
// it.
func (d *pr383) End(dst []byte) []byte {
	content := []byte{'['}
	for _, item := range d.ending().Rest {
		if len(content) > 1 && len(content)+len(item) > mcp.MaxContent {
			dst = d.chunk(dst, append(content, ']'), false)
			content = content[:1]
		}
		if len(content) > 1 {
			content = append(content, ',')
		}
		content = appendItem(content, item, mcp.MaxPassed)
	}
	return d.chunk(dst, append(content, ']'), true)
}

// Count is the count of the progress, with begun as its lowest bit.
func (d *pr383) Count() int64 {
	count := d.progress.Count() << 1
	if d.begun {
		count++
	}
	return count
}

func (d *pr383) Resume(count int64) {
	d.begun = count&1 == 1
	d.progress.Resume(count >> 1)
}

func (d *pr383) chunk(dst, content []byte, last bool) []byte {
	p := d.progress
	p.tick()
	p.written++
	dst = p.appendValue(append(dst, p.head...))
	dst = fmt.Appendf(dst, `,"partialResult":{"chunk":{"content":%s},"append":%t,"lastChunk":%t}}}`, content,
		d.begun, last)
	d.begun = true
	return append(dst, '\n')
}
