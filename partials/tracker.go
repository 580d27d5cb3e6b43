package partials

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"runnel/rpc/mcp"
)

// Tracker follows the output of one call, as its client sees it: whichever dialect the server speaks, in goes what
// came over the wire, in the order in which it came, and out comes each piece of content once and in order. What is
// missing is fetched where the dialect has a way to, else it is reported, and never made up (SEP-2679 1.3.4).
//
// It starts nothing and waits for nothing. Its methods may be used by several goroutines; its functions are called with
// its lock held and must not call it.
type Tracker struct {
	o TrackerOptions

	mu      sync.Mutex
	taskID  string // "" until the handle has come
	early   []earlyMessage
	size    int // bytes of early
	bound   int // bytes: maxHeld
	spelled spelled
	seq     sequence
	seen    rising // PR #383
	begun   bool   // content has come
	last    bool   // the dialect's end mark has come

	ranged ranged

	// Of tracker_segments.go.
	fetching bool
	fetched  int64 // behind which number the last fetch asked, -1 = none

	end     End
	message string
	merged  merged
	stats   TrackerStats
	gaps    []Gap
}

// TrackerOptions say whose output it is and who wants it. The zero value works.
type TrackerOptions struct {
	Token json.RawMessage // the call's progressToken or partialResultToken, nil = none

	// Content gets new content items; they may be kept. replaces: they stand in place of all that came before (PR #383).
	Content func(items []json.RawMessage, replaces bool)
	// Gap is told what is missing, between the Content before and behind it.
	Gap func(Gap)
	// Fetch is to ask for what comes behind a number (tasks/result with lastSeqNr) and to hand the answer to Fetched; it must
	// not wait for it. nil = nothing can be fetched.
	Fetch func(lastSeqNr int64)

	// FetchRange is to read the task's log as text from a position on, in bytes (partials/tracker_range.go), and to hand it to
	// FetchedRange; it must not wait for it. nil = it cannot be read.
	FetchRange func(after int64)

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

// spelled is the dialect in which content came first. No other is listened to: "exactly one carries the content".
type spelled uint8

const (
	unspelled spelled = iota
	spelled2679
	spelled1905
	spelled383
	spelled2998
)

// End tells how a call ended.
type End uint8

// The ends. Running is none.
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

// TrackerStats counts what came.
type TrackerStats struct {
	Partials   int   // messages whose content was handed out
	Bytes      int64 // of text in them
	Duplicates int   // dropped
	Late       int   // dropped: behind a reported gap, or behind the end
	Malformed  int   // dropped
	Gaps       int
}

// Gap is output that did not come.
type Gap struct {
	From, To int64 // the first and the last sequence number that is missing; To < From: up to an end that is not known
	Bytes    int64 // of text that came before it
}

func (g Gap) String() string {
	switch {
	case g.To < g.From:
		return fmt.Sprintf("gap: the output from number %d on did not come (after %d bytes)", g.From, g.Bytes)
	case g.To == g.From:
		return fmt.Sprintf("gap: number %d of the output did not come (after %d bytes)", g.From, g.Bytes)
	}
	return fmt.Sprintf("gap: numbers %d to %d of the output did not come (after %d bytes)", g.From, g.To, g.Bytes)
}

// earlyMessage is a partial or a status that came before its task was known: the handle may come behind it.
type earlyMessage struct {
	taskID string
	seq    int64
	items  []json.RawMessage
	status mcp.TaskStatus // "" = a partial
	text   string
}

// NewTracker makes a tracker for a call that is about to be sent.
func NewTracker(o TrackerOptions) *Tracker {
	if o.Window == 0 {
		o.Window = defaultWindow
	}
	return &Tracker{o: o, fetched: -1, bound: maxHeld, merged: merged{most: maxMerge}}
}

// Notification takes a notification of the server's. It tells whether it belongs to the call.
func (t *Tracker) Notification(method string, params json.RawMessage) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch method {
	case "notifications/tasks/partial":
		return t.partial(params)
	case "notifications/tools/partial_result":
		return t.toolResult(params)
	case "notifications/progress":
		return t.progress(params)
	case "notifications/tasks/status", "notifications/tasks":
		var s mcp.Task
		_ = json.Unmarshal(params, &s) // what is of the wrong type reads as absent
		switch {
		case s.TaskID == "":
		case t.taskID == "" && t.end == Running:
			t.keep(earlyMessage{taskID: s.TaskID, status: s.Status, text: s.StatusMessage}, len(params))
		case s.TaskID == t.taskID:
			t.status(s.Status, s.StatusMessage)
			return true
		}
	}
	return false
}

// partial takes one of SEP-2679.
func (t *Tracker) partial(params []byte) bool {
	p := TaskPartial{Seq: -1}
	if json.Unmarshal(params, &p) != nil || p.Seq < 0 || p.Seq > maxNumber || len(p.Content) == 0 || p.TaskID == "" {
		if p.TaskID == t.taskID && t.taskID != "" {
			t.stats.Malformed++ // the number behind it shows the gap
			return true
		}
		return false
	}
	switch {
	case t.taskID == "" && t.end == Running:
		t.keep(earlyMessage{taskID: p.TaskID, seq: p.Seq, items: p.Content}, len(params))
		return false
	case p.TaskID != t.taskID:
		return false
	}
	t.number(spelled2679, p.Seq, p.Content)
	return true
}

func (t *Tracker) keep(m earlyMessage, size int) {
	if t.size += size + messageBytes; t.size <= t.bound {
		t.early = append(t.early, m)
	}
}

// toolResult takes one of SEP-2998.
func (t *Tracker) toolResult(params []byte) bool {
	p := PartialToolResult{Seq: -1}
	err := json.Unmarshal(params, &p)
	if len(t.o.Token) == 0 || !bytes.Equal(p.Token, t.o.Token) {
		return false
	}
	if err != nil || p.Seq < 0 || p.Seq > maxNumber {
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
	var p struct {
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
	err := json.Unmarshal(params, &p)
	if len(t.o.Token) == 0 || !bytes.Equal(p.Token, t.o.Token) {
		return false
	}
	switch {
	case err != nil:
		t.stats.Malformed++
	case p.Partial == nil:
		t.seen.raise(p.Progress)
	case !t.speaks(spelled383):
	case t.end != Running || t.last:
		t.stats.Late++
	default:
		// "The progress value MUST increase with each notification": one that does not came before, or should have.
		switch t.seen.take(p.Progress) {
		case seenBefore:
			t.stats.Duplicates++
			return true
		case tooLate:
			t.stats.Late++
			t.gap(Gap{From: int64(t.stats.Partials), To: int64(t.stats.Partials)})
			return true
		}
		if !t.begun && p.Partial.Append {
			t.gap(Gap{From: 0, To: 0}) // "append": there was something to append to
		}
		t.last = p.Partial.Last
		t.emit(p.Partial.Chunk.Content, t.begun && !p.Partial.Append)
	}
	return true
}

// speaks tells whether a dialect is the one of this call.
func (t *Tracker) speaks(s spelled) bool {
	if t.spelled == unspelled {
		t.spelled = s
		if s == spelled1905 {
			t.seq.next = 1 // "seqNr starts at 1"
		}
	}
	return t.spelled == s
}

// number takes content with a number.
func (t *Tracker) number(s spelled, n int64, items []json.RawMessage) {
	if !t.speaks(s) {
		return
	}
	if s == spelled2679 && t.end != Running {
		// "Requestors SHOULD discard any partial notifications received after observing a terminal task status"
		t.stats.Late++
		return
	}
	if t.ranged.begun {
		if !t.ranged.done {
			t.seq.next = max(t.seq.next, n+1)
			t.askRange()
		}
		return
	}
	switch t.seq.put(n, items) {
	case seenBefore:
		t.stats.Duplicates++ // 1.3.10: "it SHOULD discard the duplicate"
		if t.isMissing(n) {
			t.stats.Duplicates--
			t.stats.Late++
		}
		return
	case tooLate:
		t.stats.Late++ // behind the last
		return
	}
	t.hand()
	t.fetch()
	switch {
	case t.ranged.on && len(t.seq.held) == 0:
		t.ranged.on = false // what was late has come
	case t.ranged.on && t.seq.size > 2*t.bound:
		t.giveUp()
	}
	for !t.ranged.on && (!t.fetching && (len(t.seq.held) > t.o.Window || t.seq.size > t.bound) || t.seq.size > 2*t.bound) {
		t.skip()
	}
}

// isMissing tells whether a number was reported as missing.
func (t *Tracker) isMissing(n int64) bool {
	return slices.ContainsFunc(t.gaps, func(g Gap) bool { return g.From <= n && n <= g.To })
}

// hand hands out what is in order.
func (t *Tracker) hand() {
	for {
		items, ok := t.seq.take()
		if !ok {
			return
		}
		t.emit(items, false)
	}
}

// skip gives up what is missing before the first number that is held, if one is.
func (t *Tracker) skip() {
	if t.read() {
		return
	}
	from := t.seq.next
	to, ok := t.seq.skip()
	if !ok {
		return
	}
	t.gap(Gap{From: from, To: to})
	t.hand()
}

func (t *Tracker) gap(g Gap) {
	g.Bytes = t.stats.Bytes
	t.stats.Gaps++
	t.merged.gap = true
	if len(t.gaps) < maxGaps {
		t.gaps = append(t.gaps, g)
	}
	if t.o.Gap != nil {
		t.o.Gap(g)
	}
}

func (t *Tracker) emit(came []json.RawMessage, replaces bool) {
	items := came[:0]
	for _, item := range came {
		if item, ok := mcp.Received(item); ok {
			items = append(items, item)
		} else {
			t.stats.Malformed++
		}
	}
	t.begun = true
	t.stats.Partials++
	t.ranged.note(items)
	t.stats.Bytes += t.merged.add(items, replaces)
	if t.o.Content != nil && (len(items) > 0 || replaces) {
		t.o.Content(items, replaces)
	}
}

// Answer is what a response to the call is.
type Answer uint8

// The kinds of answers.
const (
	AnswerResult   Answer = iota // the result, or what is none of the others
	AnswerHandle                 // a task; its result comes by other ways
	AnswerSegments               // of SEP-1905, with or without the task; more may follow with the same id
	AnswerQuestion               // input_required: the call is to be sent again, with answers
)

// Response takes a result of the call, the first or a later one, and tells what it is.
func (t *Tracker) Response(result json.RawMessage) Answer {
	t.mu.Lock()
	defer t.mu.Unlock()
	var r struct {
		ResultType mcp.ResultType  `json:"resultType"`
		TaskID     string          `json:"taskId"`
		Status     mcp.TaskStatus  `json:"status"`
		Message    string          `json:"statusMessage"`
		Task       *mcp.Task       `json:"task"`
		Segments   json.RawMessage `json:"partial-content"`
		IsError    bool            `json:"isError"`
		Meta       struct {
			Related mcp.RelatedTask `json:"io.modelcontextprotocol/related-task"`
		} `json:"_meta"`
	}
	_ = json.Unmarshal(result, &r) // what is of the wrong type reads as absent
	switch {
	case r.ResultType == mcp.ResultInputRequired:
		return AnswerQuestion
	case r.ResultType == mcp.ResultTask && r.TaskID != "":
		t.follow(r.TaskID)
		t.status(r.Status, r.Message)
		return AnswerHandle
	case r.Segments != nil:
		// "Extract the taskId from either the task object or _meta"
		id := r.Meta.Related.TaskID
		if r.Task != nil {
			id = r.Task.TaskID
		}
		t.follow(id)
		t.segments(result)
		return AnswerSegments
	case r.Task != nil && r.Task.TaskID != "":
		t.follow(r.Task.TaskID)
		t.status(r.Task.Status, r.Task.StatusMessage)
		return AnswerHandle
	}
	if t.end == Running && t.taskID == "" {
		t.finish(Done, "")
		if r.IsError {
			t.end = Failed
		}
	}
	return AnswerResult
}

// Handle takes the id of the call's task where it is known otherwise.
func (t *Tracker) Handle(taskID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.follow(taskID)
}

func (t *Tracker) follow(id string) {
	if id == "" || t.taskID != "" {
		return
	}
	t.taskID = id
	early := t.early
	t.early = nil
	for _, m := range early {
		switch {
		case m.taskID != id: // another call's
		case m.status != "":
			t.status(m.status, m.text)
		default:
			t.number(spelled2679, m.seq, m.items)
		}
	}
}

// Status takes the task's status as tasks/get or tasks/cancel says it.
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

// Finish tells of an end that the server does not tell of: Expired, Lost, or Failed by an error. The first end counts.
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
	if t.spelled != spelled1905 { // whose rest can be fetched still
		t.flush()
	}
}

// Flush tells that nothing more comes: what is held is handed out, and what is missing reported. Of a call that has
// ended only SEP-1905 may have a rest.
func (t *Tracker) Flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ranged.on {
		t.giveUp()
	}
	t.flush()
}

func (t *Tracker) flush() {
	if t.ranged.on && !t.ranged.done {
		t.askRange()
		return
	}
	for len(t.seq.held) > 0 && !t.ranged.on {
		t.skip()
	}
	switch missing := t.seq.missing(); {
	case t.spelled == unspelled || t.spelled == spelled2679: // no end mark: Compare tells
	case missing.To >= missing.From:
		t.gap(missing)
		t.seq.next = missing.To + 1
		t.last = true
	case t.spelled == spelled2998 && t.seq.closed || t.last || t.end == Cancelled: // then it is cut off as was wished
	default:
		t.last = true
		t.gap(Gap{From: t.next(), To: -1})
	}
}

// next is the number that comes next, or the count in a dialect without numbers.
func (t *Tracker) next() int64 {
	if t.spelled == spelled383 {
		return int64(t.stats.Partials)
	}
	return t.seq.next
}

// TaskID is the call's task, "" if it has none (yet).
func (t *Tracker) TaskID() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.taskID
}

// End tells how the call ended, and what the server said to that.
func (t *Tracker) End() (End, string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.end, t.message
}

// Stats counts what has come so far.
func (t *Tracker) Stats() TrackerStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stats
}

// Gaps are the first gaps, in order.
func (t *Tracker) Gaps() []Gap {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.gaps)
}

// Compare tells how what came goes with the result's content, the canonical one.
func (t *Tracker) Compare(content []json.RawMessage) Comparison {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.merged.compare(content, t.spelled == spelled383)
}

// Beyond is what the result's content has behind what came. It is for a result that Compare says ResultAdds or
// NoneStreamed of.
func (t *Tracker) Beyond(content []json.RawMessage) []json.RawMessage {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.merged.beyond(content)
}
