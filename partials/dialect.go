package partials

import (
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
}

// appendContent appends the content items that carry chunks, as a JSON array. Text of one stream that
// follows itself is one item ("Two notifications with content: ["a"] then content: ["b"] are semantically
// equivalent to one notification", SEP-2679 1.3.11, holds within one as well).
func appendContent(dst []byte, chunks []Chunk) []byte {
	return appendItems(dst, chunks, mcp.MaxContent)
}

// appendItems is appendContent with items of up to longest bytes.
func appendItems(dst []byte, chunks []Chunk, longest int) []byte {
	dst = append(dst, '[')
	for i := 0; i < len(chunks); {
		if i > 0 {
			dst = append(dst, ',')
		}
		c := &chunks[i]
		i++
		switch c.Kind {
		case Text:
			dst = append(dst, `{"type":"text","text":"`...)
			dst = rawjson.AppendText(dst, c.Data)
			for ; i < len(chunks) && chunks[i].Kind == Text && chunks[i].Stream == c.Stream; i++ {
				dst = rawjson.AppendText(dst, chunks[i].Data)
			}
			dst = append(dst, '"')
			if c.Stream == Stderr {
				dst = append(dst, `,"_meta":{"runnel/stream":"stderr"}`...)
			}
			dst = append(dst, '}')
		default:
			dst = appendItem(dst, c.Data, longest)
		}
	}
	return append(dst, ']')
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
