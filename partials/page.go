package partials

import (
	"bytes"
	"math"
	"strconv"

	"runnel/rpc/mcp"
)

// Page is some segments in a row.
type Page struct {
	Content  []byte // a JSON array of segments, with seqNr if they were asked for
	Count    int
	Complete bool // nothing follows, ever
	IsError  bool // with Complete: the task failed
}

// collector makes a page.
type collector struct {
	page     Page
	limit    int
	begin    int // of the page, in its content
	numbered bool
}

// numberBytes is about what a number adds to an item.
const numberBytes = 24

// longest is how long an item may be: a result that is merged is no line that everybody must be able to read.
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
