package tracker

import "runnel/rpc/mcp"

// Status takes the task's status from an answer to tasks/get or tasks/cancel.
// Call it with each answer that shows the task.
func (t *Tracker) Status(s mcp.TaskStatus, message string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.status(s, message)
}

func (t *Tracker) status(s mcp.TaskStatus, message string) {
	switch s {
	case mcp.TaskCompleted:
		t.finish(Done, message)
	case mcp.TaskFailed:
		t.finish(Failed, message)
	case mcp.TaskCancelled:
		t.finish(Cancelled, message)
	}
}

// Finish sets an end that the server does not report: Expired, Lost, or Failed by an error. Only the first
// end counts.
func (t *Tracker) Finish(e End, message string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.finish(e, message)
}

func (t *Tracker) finish(e End, message string) {
	if t.end != Running {
		return
	}
	t.end, t.message = e, message
	t.early = nil
	if t.dialect != sep1905 { // in SEP-1905 the rest can still be fetched
		t.flush()
	}
}

// Flush hands out what is held, and reports what is missing. After the end of a call, only content of
// SEP-1905 can be left.
func (t *Tracker) Flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.giveUp()
	t.flush()
}

func (t *Tracker) flush() {
	if t.ranged.active() {
		t.want()
		return
	}
	for len(t.seq.held) > 0 && t.ranged.phase != rangeAsked {
		t.skip()
	}
	switch missing := t.seq.missing(); {
	case t.dialect == unknownDialect || t.dialect == sep2679:
		// There is no end mark: Compare shows whether something is missing.
	case missing.To >= missing.From:
		t.gap(missing)
		t.seq.next = missing.To + 1
		t.last = true
	case t.last || t.dialect == sep2998 && t.seq.closed: // the end mark has come
	case t.end == Cancelled: // the output was cut off on request
	default:
		t.last = true
		t.gap(Gap{From: t.seq.next, To: -1})
	}
}
