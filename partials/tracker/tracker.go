package tracker

import (
	"encoding/json"
	"sync"
)

// Tracker follows the output of one call, as its client sees it: whichever dialect the server speaks, in goes what
// came over the wire, in the order in which it came, and out comes each piece of content once and in order. What is
// missing is fetched where the dialect has a way to, else it is reported, and never made up (SEP-2679 1.3.4).
//
// It starts nothing and waits for nothing. Its methods may be used by several goroutines; its functions are called with
// its lock held and must not call it.
type Tracker struct {
	o Options

	mu      sync.Mutex
	spelled spelled
	bound   int // bytes that may be held: maxHeld

	// The task (response.go).
	taskID string         // "" until the handle has come
	early  []earlyMessage // messages that came before it
	size   int            // bytes of early

	// The order of what comes (order.go).
	seq   sequence // in dialects with numbers
	seen  rising   // PR #383
	begun bool     // content has come
	last  bool     // the dialect's end mark has come, or that it did not come was reported

	// How what is missing is fetched: by segments, or as text (fetched.go).
	wanted   bool  // something can be fetched, and Wanted has not said so yet
	fetching bool  // segments are wanted, or their answer is awaited
	fetched  int64 // after which number segments were wanted last because of a gap, -1 = never
	ranged   ranged

	// The outcome.
	end     End
	message string // the server's, about the end
	merged  merged
	stats   Stats
	gaps    []Gap // the first ones
}

// Options say whose output it is and who wants it. The zero value works.
type Options struct {
	Token json.RawMessage // the call's progressToken or partialResultToken, nil = none

	// Content gets new content items; they may be kept. replaces: they stand in place of all that came before (PR #383).
	Content func(items []json.RawMessage, replaces bool)
	// Gap is told what is missing, between the Content before and after it.
	Gap func(Gap)
	// Missing is told that something can be fetched: Wanted says what. nil = nothing can be fetched.
	Missing func()

	Window int // how many messages are held while a number before them is missing; 0 = 32
}

const (
	defaultWindow = 32
	// maxHeld bounds what is held, in bytes: before the handle has come, and while a number is missing.
	maxHeld = 4 << 20
	// maxGaps is how many gaps are remembered one by one.
	maxGaps = 1000
	// maxNumber is the largest number that every peer can count to.
	maxNumber = 1 << 53
)

// Stats counts what came.
type Stats struct {
	Partials   int   // messages whose content was handed out
	Bytes      int64 // their text
	Duplicates int   // dropped
	Late       int   // dropped: after a reported gap, or after the end
	Malformed  int   // dropped
	Gaps       int
}

// End is how a call ended.
type End uint8

// The ends, and Running, which is not one.
const (
	Running   End = iota
	Done          // completed, or a result without isError
	Failed        // failed, or a result with isError, or an error
	Cancelled     // by tasks/cancel
	Expired       // the server does not know the task any more
	Lost          // the connection ended first
)

func (e End) String() string {
	return [...]string{"running", "completed", "failed", "cancelled", "expired", "connection lost"}[e]
}

// spelled is the dialect in which content came first. No other is listened to: "exactly one carries the content".
type spelled uint8

const (
	unspelled spelled = iota
	spelled2679
	spelled1905
	spelled383
	spelled2998
)

// earlyMessage is a partial or a status that came before its task was known: the handle may come after it.
type earlyMessage struct {
	method string
	params []byte
}

// New makes a tracker for a call that is about to be sent.
func New(o Options) *Tracker {
	if o.Window == 0 {
		o.Window = defaultWindow
	}
	return &Tracker{o: o, fetched: -1, bound: maxHeld, merged: merged{most: maxMerge}}
}

// TaskID is the call's task, to be asked for or cancelled; "" if it has none (yet).
func (t *Tracker) TaskID() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.taskID
}

// End says how the call ended, and what the server said to that.
func (t *Tracker) End() (End, string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.end, t.message
}

// Stats counts what has come so far, for a summary.
func (t *Tracker) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stats
}

// Compare says how what came compares with the result's content, the canonical one. beyond is what that has after what came, of a result
// that begins with it.
func (t *Tracker) Compare(content []json.RawMessage) (c Comparison, beyond []json.RawMessage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(content) == 0 && t.spelled == spelled383 {
		return ResultEmpty, nil
	}
	result, beyond := t.merged.compare(content)
	return t.merged.judge(&result), beyond
}

// Came is the content that came, for a result that Compare says ResultEmpty of; nil if it is more than is kept for comparing.
func (t *Tracker) Came() []json.RawMessage {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.merged.content()
}
