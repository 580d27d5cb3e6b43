package partials

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// sep2998 is SEP-2998: notifications/tools/partial_result on plain calls of the stateless era. The response
// still carries the whole result.
type sep2998 struct {
	head []byte // a line up to the seq
	seq  int64
}

// NewSEP2998 makes the dialect of SEP-2998. token is the request's partialResultToken as it was sent.
func NewSEP2998(head []byte, token json.RawMessage) Dialect {
	return &sep2998{head: fmt.Appendf(nil,
		`%s,"method":"notifications/tools/partial_result","params":{"partialResultToken":%s,"seq":`,
		head, token)}
}

func (d *sep2998) Encode(dst []byte, b Batch) []byte {
	if len(b.records) == 0 {
		return dst
	}
	return d.encode(dst, b, false)
}

func (d *sep2998) End(dst []byte) []byte { return d.encode(dst, Batch{}, true) }

func (d *sep2998) Count() int64 { return d.seq }

func (d *sep2998) Resume(count int64) { d.seq = count }

func (d *sep2998) encode(dst []byte, b Batch, final bool) []byte {
	dst = append(dst, d.head...)
	dst = strconv.AppendInt(dst, d.seq, 10)
	d.seq++
	dst = append(dst, `,"content":`...)
	dst = appendContent(dst, &b)
	dst = append(dst, `,"final":`...)
	dst = strconv.AppendBool(dst, final)
	return append(dst, '}', '}', '\n')
}
