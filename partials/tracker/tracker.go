package tracker

import (
	"encoding/json"
	"fmt"
	"sync"

	"runnel/rpc/mcp"
)

// Tracker follows the output of one call as its client sees it, in the dialect that the server speaks. It
// takes messages as they arrive, and hands out each piece of content once and in order. Missing content is
// fetched if the dialect has a way to; otherwise it is reported, and never made up (SEP-2679 1.3.4).
//
// It starts nothing and waits for nothing. Its methods may be called by several goroutines. The functions of
// its Options are called with its lock held, and must not call it.
// Make one for each call with New.
type Tracker struct {
	o Options

	mu      sync.Mutex
	dialect dialect // in which the first content came
	bound   int     // how many bytes may be held: maxHeld

	// The task (messages.go).
	taskID string         // "" until the handle has come
	early  []earlyMessage // messages that came before the handle
	size   int            // bytes of early

	// The order of the content (order.go).
	seq   sequence // in dialects with numbers
	seen  rising   // PR #383
	begun bool     // content has come
	last  bool     // the dialect's end mark has come, or was reported as missing

	// How missing content is fetched: as segments, or as text (fetched.go).
	wanted   bool  // something can be fetched, and Wanted has not returned it yet
	fetching bool  // segments are requested
	fetched  int64 // the number after which segments were last requested because of a gap; -1 = never
	ranged   ranged

	// The outcome.
	end     End
	message string // from the server, about the end
	merged  merged
	stats   Stats
	gaps    []Gap // the first ones
}

// Options say which call is tracked, and who gets its output. The zero value works.
type Options struct {
	Token json.RawMessage // the call's progressToken or partialResultToken, nil = none

	// Content gets new items, and may keep them. replaces says that they replace everything that came before
	// (PR #383).
	Content func(items []json.RawMessage, replaces bool)
	// Gap gets what is missing, after the Content before it and before the Content after it.
	Gap func(Gap)
	// Missing is called when something can be fetched: Wanted says what. nil = nothing can be fetched.
	Missing func()
	// NoErrors: what SEP-1905 streams of an error, the last segment of a call that failed, is left to the
	// result, as in the other dialects.
	NoErrors bool

	Window int // how many messages are held while an earlier one is missing; 0 = 32
}

const (
	defaultWindow = 32
	// maxHeld limits how many bytes are held: before the handle has come, and while a number is missing.
	maxHeld = 4 << 20
	// maxGaps is how many gaps are remembered individually.
	maxGaps = 1000
	// maxNumber is the largest number that every peer can represent.
	maxNumber = 1 << 53
)

// Stats counts what has come.
// Tracker.Stats returns them.
type Stats struct {
	Partials   int   // messages whose content was handed out
	Bytes      int64 // of their text
	Duplicates int   // dropped
	Late       int   // dropped, because they came after their gap was reported, or after the end
	Malformed  int   // dropped
	Gaps       int
}

// End is how a call ended.
// Tracker.End returns it, for the exit code or the last line of a summary.
type End uint8

// The ends of a call, and Running, which is not one.
const (
	Running   End = iota
	Done          // completed, or a result without isError
	Failed        // failed, or a result with isError, or an error
	Cancelled     // by tasks/cancel
	Expired       // the server no longer knows the task
	Lost          // the connection ended first
)

// String describes it to people.
func (e End) String() string {
	return [...]string{"running", "completed", "failed", "cancelled", "expired", "connection lost"}[e]
}

// dialect is how content comes. Only the one in which the first content came counts: "exactly one carries the
// content".
type dialect uint8

const (
	unknownDialect dialect = iota
	sep2679
	sep1905
	pr383
	sep2998
)

// earlyMessage is a partial or a status that came before the call's handle.
type earlyMessage struct {
	method string
	params []byte
}

// New makes a tracker for one call.
// Call it before the request is sent, since output may come before the answer.
func New(o Options) *Tracker {
	if o.Window == 0 {
		o.Window = defaultWindow
	}
	return &Tracker{o: o, fetched: -1, bound: maxHeld, merged: merged{most: maxMerge}}
}

// TaskID returns the id of the call's task, to query or cancel it; "" if there is none (yet).
func (t *Tracker) TaskID() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.taskID
}

// End returns how the call ended, with the server's message about it.
func (t *Tracker) End() (End, string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.end, t.message
}

// Stats returns counts of what has come so far, for a summary.
func (t *Tracker) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stats
}

// Compare compares the content that came with the result's, which is the canonical one. If the result begins
// with what came, beyond is the rest of the result.
func (t *Tracker) Compare(content []json.RawMessage) (c Comparison, beyond []json.RawMessage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(content) == 0 && t.dialect == pr383 {
		return ResultEmpty, nil
	}
	if !t.merged.any && len(content) > 0 {
		return NoneStreamed, content
	}
	result, beyond := t.merged.compare(content)
	return t.merged.judge(&result), beyond
}

// Came returns the content that came; nil if there was more than is kept for comparing.
func (t *Tracker) Came() []json.RawMessage {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.merged.content()
}

// Gap is output that did not come.
// Options.Gap gets it; show it, since the output around it reads as if it were whole.
type Gap struct {
	From, To int64 // the first and the last missing number; To < From: up to an unknown end
	Bytes    int64 // bytes of the text before the gap
}

// String tells people which pieces are missing.
func (g Gap) String() string {
	switch {
	case g.To < g.From:
		return fmt.Sprintf("gap: the output from number %d on did not come (after %d bytes)", g.From, g.Bytes)
	case g.To == g.From:
		return fmt.Sprintf("gap: number %d of the output did not come (after %d bytes)", g.From, g.Bytes)
	}
	return fmt.Sprintf("gap: numbers %d to %d of the output did not come (after %d bytes)", g.From,
		g.To, g.Bytes)
}

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
