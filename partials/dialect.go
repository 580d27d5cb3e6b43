package partials

import (
	"encoding/json"
	"fmt"
	"strconv"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// Dialect spells output as lines of one client's protocol. It is pure: it starts nothing, waits for nothing and
// reads no clock. It gives its numbers when it encodes, and what it encodes is written.
type Dialect interface {
	// Encode appends one line, with its newline, that carries b, or nothing if b has nothing for it.
	Encode(dst []byte, b Batch) []byte
	// End appends the line that marks the end of the output, in dialects that have one.
	End(dst []byte) []byte
	// Count is how far its numbers have come, and Resume lets a new one of the same kind go on from there: another process may
	// encode what follows.
	Count() int64
	Resume(count int64)
}

// EndlessDialect is a Dialect made of its Encode: one without an end mark.
type EndlessDialect func(dst []byte, b Batch) []byte

// Encode implements Dialect.
func (d EndlessDialect) Encode(dst []byte, b Batch) []byte { return d(dst, b) }

// End implements Dialect.
func (d EndlessDialect) End(dst []byte) []byte { return dst }

// Count implements Dialect: there are no numbers.
func (d EndlessDialect) Count() int64 { return 0 }

// Resume implements Dialect.
func (d EndlessDialect) Resume(int64) {}

// appendContent appends the content items that carry a batch, as a JSON array. Text of one stream that
// follows itself is one item ("Two notifications with content: ["a"] then content: ["b"] are semantically
// equivalent to one notification", SEP-2679 1.3.11, holds within one as well).
func appendContent(dst []byte, b *Batch) []byte {
	return append(appendItems(append(dst, '['), b, mcp.MaxContent), ']')
}

// appendItems appends content items of up to longest bytes.
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
		dst = rawjson.AppendText(dst, c.Data)
		dst = append(dst, '"')
		if c.Stream == Stderr {
			dst = append(dst, `,"_meta":{"runnel/stream":"stderr"}`...)
		}
		dst = append(dst, '}')
	}
	return dst
}

// appendItem appends an item, or what stands for one that is too long for a line.
func appendItem(dst, item []byte, longest int) []byte {
	if len(item) <= longest {
		return append(dst, item...)
	}
	dst = append(dst, `{"type":"text","text":"[an item of `...)
	dst = strconv.AppendInt(dst, int64(len(item)), 10)
	return append(dst, ` bytes: it is in the task's result]"}`...)
}

// relatedTask is the _meta of what belongs to a task.
func relatedTask(id string) []byte {
	quoted, _ := json.Marshal(id)
	return fmt.Appendf(nil, `{"io.modelcontextprotocol/related-task":{"taskId":%s}}`, quoted)
}
