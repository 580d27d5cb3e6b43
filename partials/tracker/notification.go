package tracker

import (
	"bytes"
	"encoding/json"

	"runnel/rpc/mcp"
)

// Notification takes a notification of the server's. It reports whether it belongs to the call.
func (t *Tracker) Notification(method string, params json.RawMessage) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.notification(method, params)
}

func (t *Tracker) notification(method string, params []byte) bool {
	switch method {
	case "notifications/tools/partial_result":
		return t.toolResult(params)
	case "notifications/progress":
		return t.progress(params)
	case "notifications/tasks/partial", "notifications/tasks/status", "notifications/tasks":
		switch {
		case t.taskID == "":
			t.keep(method, params)
		case method == "notifications/tasks/partial":
			return t.partial(params)
		default:
			var s mcp.Task
			_ = json.Unmarshal(params, &s) // a member of the wrong type reads as absent
			if s.TaskID == t.taskID {
				t.status(s.Status, s.StatusMessage)
				return true
			}
		}
	}
	return false
}

// partial takes one of SEP-2679.
func (t *Tracker) partial(params []byte) bool {
	p := mcp.TaskPartial{Seq: -1}
	_ = json.Unmarshal(params, &p) // a member of the wrong type reads as absent
	switch {
	case p.TaskID != t.taskID:
		return false
	case p.Seq < 0 || p.Seq > maxNumber || len(p.Content) == 0:
		t.stats.Malformed++ // the number after it shows the gap
	default:
		t.number(spelled2679, p.Seq, p.Content)
	}
	return true
}

// toolResult takes one of SEP-2998.
func (t *Tracker) toolResult(params []byte) bool {
	p := mcp.PartialToolResult{Seq: -1}
	_ = json.Unmarshal(params, &p)
	if len(t.o.Token) == 0 || !bytes.Equal(p.Token, t.o.Token) {
		return false
	}
	if p.Seq < 0 || p.Seq > maxNumber {
		t.stats.Malformed++
		return true
	}
	if p.Final && t.speaks(spelled2998) {
		t.seq.close(p.Seq)
	}
	t.number(spelled2998, p.Seq, p.Content)
	return true
}

// progress takes a progress notification, with a partial result (PR #383) or without.
func (t *Tracker) progress(params []byte) bool {
	var n struct {
		Token    json.RawMessage `json:"progressToken"`
		Progress float64         `json:"progress"`
		Partial  *struct {
			Chunk struct {
				Content []json.RawMessage `json:"content"`
			} `json:"chunk"`
			Append bool `json:"append"`
			Last   bool `json:"lastChunk"`
		} `json:"partialResult"`
	}
	err := json.Unmarshal(params, &n)
	if len(t.o.Token) == 0 || !bytes.Equal(n.Token, t.o.Token) {
		return false
	}
	p := n.Partial
	switch {
	case err != nil:
		t.stats.Malformed++
	case p == nil:
		t.seen.raise(n.Progress)
	case !t.speaks(spelled383):
	case t.end != Running || t.last:
		t.stats.Late++
	default:
		// "The progress value MUST increase with each notification": one that does not came before, or should have.
		switch t.seen.take(n.Progress) {
		case seenBefore:
			t.stats.Duplicates++
			return true
		case tooLate:
			t.stats.Late++
			t.gap(Gap{From: t.seq.next, To: t.seq.next})
			return true
		}
		if !t.begun && p.Append {
			t.gap(Gap{From: 0, To: 0}) // "append": there was something to append to
		}
		t.last = p.Last
		t.seq.next++ // its chunks are counted, since their numbers rise by steps of any size
		t.emit(p.Chunk.Content, t.begun && !p.Append)
	}
	return true
}
