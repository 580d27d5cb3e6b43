package engine

import (
	"cmp"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// Stored is the part of a task's record that engines store as JSON. An engine may store some of it
// separately, where others can write it.
type Stored struct {
	Tool      string          `json:"tool,omitempty"`
	Client    string          `json:"client,omitempty"`
	Status    mcp.TaskStatus  `json:"status"`
	Message   string          `json:"message,omitempty"`
	Created   int64           `json:"created"` // nanoseconds since 1970
	Updated   int64           `json:"updated"`
	TTL       int64           `json:"ttl"` // nanoseconds
	Merge     bool            `json:"merge,omitempty"`
	Hidden    bool            `json:"hidden,omitempty"`   // a call without a handle, which nobody finds
	Keeper    string          `json:"keeper,omitempty"`   // "" once the task has ended
	Work      json.RawMessage `json:"work,omitempty"`     // describes the process that has taken the task
	Offer     *waiting        `json:"offer,omitempty"`    // if workers run the task
	Writer    string          `json:"writer,omitempty"`   // the process that has written this version
	Attempt   string          `json:"attempt,omitempty"`  // the attempt to store the outcome
	Pieces    int             `json:"pieces,omitempty"`   // of the outcome, in that attempt
	Outcome   int             `json:"outcome,omitempty"`  // its size in bytes, if it is in one piece
	End       int64           `json:"end,omitempty"`      // where the log ends, once the task has ended
	Numbered  int             `json:"numbered,omitempty"` // how many segments then have numbers
	Variables json.RawMessage `json:"variables,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // of the call
}

// Record is a task as it was read, or as it is to be written.
type Record struct {
	tasks.Task
	Stored   Stored
	Revision uint64 // how the engine identifies this version
	// Seen is how the engine identifies this version of the variables, and SeenData what is stored there.
	Seen     uint64
	SeenData []byte
	Body     []byte            // the offer, encoded by the engine, while it is being made
	Sealed   bool              // the end is about to be stored with these variables
	End      int64             // where its log ends
	Ahead    []partials.Extent // output that Extent has read
	Partly   bool              // there is more than Ahead
	Head     int64             // where the head of a long log ends, 0 if it is not long (Measure)
	Measured bool              // End is exact (Measure): everything up to it can be read
	Ending   *partials.Ending
	Damage   error // the reason why the record is invalid
}

// recordLimit bounds a record that is read; variables are the longest part.
const recordLimit = 1 << 20

// Decode decodes a record that was stored at a time. The engine then sets what it has stored separately, and
// calls Check.
func (r *Record) Decode(data []byte, at time.Time) {
	if len(data) > recordLimit || !json.Valid(data) || json.Unmarshal(data, &r.Stored) != nil {
		r.Stored = Stored{Created: at.UnixNano(), Updated: at.UnixNano(), TTL: int64(time.Hour)}
		r.Fail(errors.New("its record cannot be read"))
	}
}

// Parts are what some engines store beside the JSON of a record, where conditions and scripts look at it and
// change it.
type Parts struct {
	Keeper    string
	Writer    string // of the last version, once the task has no keeper
	Hidden    bool
	Work      []byte // nil = none
	End       int64  // negative if it is damaged
	Variables []byte
}

// EncodeRest encodes what is stored beside Parts.
func (r *Record) EncodeRest() ([]byte, error) {
	s := r.Stored
	s.Keeper = ""
	s.Writer = ""
	s.Hidden = false
	s.Work = nil
	s.End = 0
	return json.Marshal(s)
}

// DecodeParts decodes and checks a record that is stored in parts.
func (r *Record) DecodeParts(rest []byte, p Parts) {
	r.Decode(rest, time.Now())
	if p.End < 0 {
		r.Fail(errors.New("it is not known where its output ends"))
	}
	s := &r.Stored
	s.Keeper = p.Keeper
	s.Writer = cmp.Or(p.Keeper, p.Writer)
	s.Hidden = p.Hidden
	s.Work = p.Work
	s.End = max(p.End, 0)
	r.Check(p.Variables, s.Outcome > 0)
}

// Check makes the task from what is stored, and checks that runnel could have written it. outcome: the record
// has one.
func (r *Record) Check(variables []byte, outcome bool) {
	t, s := &r.Task, &r.Stored
	t.CreatedAt = time.Unix(0, s.Created)
	t.UpdatedAt = time.Unix(0, s.Updated)
	t.TTL = time.Duration(s.TTL)
	if r.Damage != nil {
		s.Keeper, s.Pieces = "", 0
		return
	}
	r.take()
	if err := r.CheckStored(s.Keeper != "", outcome); err != nil {
		r.Fail(err)
	}
	if s.Offer != nil && !IsToken(s.Offer.Class) { // everybody who follows the task is shown it
		r.Fail(errors.New("its offer to workers cannot be read"))
	}
	r.SetVariables(variables)
}

// SetVariables sets the variables that were read.
func (r *Record) SetVariables(stored []byte) {
	var err error
	if r.Variables, err = tasks.DecodeVariables(stored); err != nil {
		r.Fail(err)
	}
}

// take makes the task from what is stored.
func (r *Record) take() {
	t, s := &r.Task, &r.Stored
	t.Tool = strings.ToValidUTF8(s.Tool, "�")
	t.Status = s.Status
	t.StatusMessage = s.Message
	t.Merge = s.Merge
	t.Hidden = s.Hidden
	t.Detached = s.Work != nil || s.Offer != nil
	t.UpdatedAt, t.Client = time.Unix(0, s.Updated), strings.ToValidUTF8(s.Client, "�")
	t.Arguments = tasks.DecodeArguments(s.Arguments)
	r.End = max(s.End, 0)
	if s.Offer != nil {
		var work struct{ Host string }
		_ = json.Unmarshal(s.Work, &work) // it is only for people, and may be missing
		t.Waiting = r.Waits()
		t.Attempt = s.Offer.Attempt
		t.Worker = work.Host
	}
}

// put makes what is stored from the task.
func (r *Record) put(writer string) {
	t, s := &r.Task, &r.Stored
	s.Tool = t.Tool
	s.Status = t.Status
	s.Message = t.StatusMessage
	s.Merge = t.Merge
	s.Hidden = t.Hidden
	s.Writer = writer
	s.Client = t.Client
	s.Created = t.CreatedAt.UnixNano()
	s.Updated = t.UpdatedAt.UnixNano()
	s.TTL = int64(t.TTL)
	if t.Arguments != nil {
		s.Arguments = t.Arguments
	}
}

// Fail fails the task because its record is invalid.
func (r *Record) Fail(why error) {
	if r.Damage == nil {
		r.Damage, r.Ending = why, r.FailDamaged(why)
		r.Stored.Keeper, r.Stored.Pieces = "", 0
	}
}

// Terminal reports whether the task has ended.
func (r *Record) Terminal() bool { return r.Status.Terminal() }

// waiting is the part of the record about a task's offer to workers.
type waiting struct {
	Class    string         `json:"class"`
	Priority tasks.Priority `json:"priority,omitempty"`
	Since    int64          `json:"since"`   // when it was last offered
	Timeout  int64          `json:"timeout"` // nanoseconds from then on
	Retries  int            `json:"retries,omitempty"`
	Attempt  int            `json:"attempt,omitempty"` // how many times workers have taken it
	Front    string         `json:"front,omitempty"`   // the process with which it ends; "" = it does not
}

// QueueKeeper is the keeper of tasks that wait for a worker.
const QueueKeeper = "queue"

// Waits reports whether the task waits for a worker.
func (r *Record) Waits() bool {
	return r.Stored.Keeper == QueueKeeper && r.Stored.Offer != nil && !r.Terminal()
}

// front returns the process with which the task ends, "" if it does not: its client may have got its id.
func (r *Record) front() string {
	if r.Stored.Offer == nil || tasks.Handed(r.Variables) {
		return ""
	}
	return r.Stored.Offer.Front
}

// overdue reports whether the task has waited too long.
func (r *Record) overdue(now time.Time) bool {
	return r.Waits() && now.After(time.Unix(0, r.Stored.Offer.Since+r.Stored.Offer.Timeout))
}

// restore makes the segments of a task that has its log.
func restore(r *Record, ends []int64) *partials.Segments {
	s := partials.RestoreSegments(r.Log, ends, r.Ending)
	if !r.Terminal() {
		s.Follow()
	}
	return s
}

// Numbers returns a collector for the numbers of a task's segments after number n, whose segment ends at
// position last.
func (r *Record) Numbers(n int, last int64) partials.Numbers {
	return partials.Numbers{After: n, Last: last, End: r.End, Known: r.Stored.Numbered}
}

// Extents collects extents that an engine reads in order, for partials.Backing: those after a position, up to
// a gap. A damaged extent is reported and skipped.
type Extents struct {
	List []partials.Extent

	after  int64
	damage func(error)
	gap    bool
}

// Add takes the next extent as it was read, and reports whether it was added.
func (x *Extents) Add(e partials.Extent, err error) bool {
	n := len(x.List)
	if err == nil {
		err = e.Check()
	}
	if err == nil && n > 0 && e.Start < x.List[n-1].End() {
		err = errors.New("it overlaps what is before it")
	}
	if err != nil {
		x.damage(err) // it counts as no longer kept
		return false
	}
	x.gap = x.gap || n > 0 && x.List[n-1].End() != e.Start // the rest is read separately
	if x.gap || e.End() <= x.after {
		return false
	}
	x.List = append(x.List, e)
	return true
}
