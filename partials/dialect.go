package partials

import (
	"encoding/json"
	"fmt"
	"strconv"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// Dialect spells output as lines of one client's protocol. It is pure: it starts nothing, waits for nothing
// and reads no clock. It numbers lines as it encodes them, and everything that it encodes is written.
type Dialect interface {
	// Encode appends one line, with its newline, that carries b; or nothing, if b has nothing for it.
	Encode(dst []byte, b Batch) []byte
	// End appends the line that marks the end of the output, if the dialect has one.
	End(dst []byte) []byte
	// Count returns the state of its numbers, for a mark from which a stream can be resumed, even by another
	// process.
	Count() int64
	// Resume lets a new Dialect of the same kind continue from a Count. It is called before anything is
	// encoded.
	Resume(count int64)
}

// EndlessDialect makes a Dialect of its Encode function.
type EndlessDialect func(dst []byte, b Batch) []byte

// Encode implements Dialect.
func (d EndlessDialect) Encode(dst []byte, b Batch) []byte { return d(dst, b) }

// End implements Dialect.
func (d EndlessDialect) End(dst []byte) []byte { return dst }

// Count implements Dialect: it has no numbers.
func (d EndlessDialect) Count() int64 { return 0 }

// Resume implements Dialect.
func (d EndlessDialect) Resume(int64) {}

// appendContent appends the items of a batch as a JSON array. Adjacent text of one stream is one item
// ("Two notifications with content: ["a"] then content: ["b"] are semantically
// equivalent to one notification", SEP-2679 1.3.11, holds within one as well).
func appendContent(dst []byte, b *Batch) []byte {
	return append(appendItems(append(dst, '['), b, mcp.MaxPassed), ']')
}

// appendItems appends the items of a batch, separated by commas. A note replaces one of more than longest
// bytes that is not text.
func appendItems(dst []byte, b *Batch, longest int) []byte {
	first := true
	for c := range b.Items() {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		if c.Kind == Item {
			dst = appendItem(dst, c.Data, longest)
			continue
		}
		dst = append(dst, `{"type":"text","text":"`...)
		data := c.Data
		if !b.Colors {
			data = c.Plain()
		}
		dst = rawjson.AppendText(dst, data)
		dst = append(dst, '"')
		if c.Stream == Stderr {
			dst = append(dst, `,"_meta":{"runnel/stream":"stderr"}`...)
		}
		dst = append(dst, '}')
	}
	return dst
}

// appendItem appends an item, or a note in its place if it has more than longest bytes.
func appendItem(dst, item []byte, longest int) []byte {
	if len(item) <= longest {
		return append(dst, item...)
	}
	dst = append(dst, `{"type":"text","text":"[an item of `...)
	dst = strconv.AppendInt(dst, int64(len(item)), 10)
	return append(dst, ` bytes: it is in the task's result]"}`...)
}

// relatedTask is the _meta of a message that belongs to a task.
func relatedTask(id string) []byte {
	quoted, _ := json.Marshal(id)
	return fmt.Appendf(nil, `{"io.modelcontextprotocol/related-task":{"taskId":%s}}`, quoted)
}
