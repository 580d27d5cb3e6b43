package partials

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// sep2679 is SEP-2679: notifications/tasks/partial. The task's terminal status marks the end of the output.
type sep2679 struct {
	head []byte // a line up to the content
	seq  int64
}

// NewSEP2679 makes the dialect of SEP-2679 for one task. head is the beginning of every line:
// `{"jsonrpc":"2.0"` and any other members that its receiver needs. meta is nil except on a subscription of
// the stateless era, where it is the _meta object that names the subscription; seq counts from 0 on each one.
func NewSEP2679(head []byte, taskID string, meta json.RawMessage) Dialect {
	head = fmt.Appendf(nil, `%s,"method":"notifications/tasks/partial","params":{`, head)
	if meta != nil {
		head = fmt.Appendf(head, `"_meta":%s,`, meta)
	}
	id, _ := json.Marshal(taskID)
	return &sep2679{head: fmt.Appendf(head, `"taskId":%s,"content":`, id)}
}

func (d *sep2679) Encode(dst []byte, b Batch) []byte {
	if len(b.records) == 0 {
		return dst // "The content field MUST contain at least one item" (1.3.5)
	}
	dst = append(dst, d.head...)
	dst = appendContent(dst, &b)
	// "seq MUST start at 0 for the first partial of a given task and MUST increment by exactly 1" (1.2)
	dst = strconv.AppendInt(append(dst, `,"seq":`...), d.seq, 10)
	d.seq++
	return append(dst, '}', '}', '\n')
}

func (d *sep2679) End(dst []byte) []byte { return dst }

func (d *sep2679) Count() int64 { return d.seq }

func (d *sep2679) Resume(count int64) { d.seq = count }
