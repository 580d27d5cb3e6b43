package engine

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// Stored is a task's record as engines store it, as JSON. An engine may keep some of it beside, where others can write it.
type Stored struct {
	Tool      string          `json:"tool,omitempty"`
	Status    mcp.TaskStatus  `json:"status"`
	Message   string          `json:"message,omitempty"`
	Created   int64           `json:"created"` // nanoseconds since 1970
	Updated   int64           `json:"updated"`
	TTL       int64           `json:"ttl"` // nanoseconds
	Merge     bool            `json:"merge,omitempty"`
	Hidden    bool            `json:"hidden,omitempty"`   // a call without a handle, which nobody finds
	Keeper    string          `json:"keeper,omitempty"`   // "" once the task has ended
	Work      json.RawMessage `json:"work,omitempty"`     // of a task that was taken: what runs it
	Offer     *Waiting        `json:"offer,omitempty"`    // of a task that workers run
	Writer    string          `json:"writer,omitempty"`   // the process that has written this
	Attempt   string          `json:"attempt,omitempty"`  // to store the outcome
	Pieces    int             `json:"pieces,omitempty"`   // of the outcome of that attempt
	Outcome   int             `json:"outcome,omitempty"`  // its bytes, where it is in one piece
	End       int64           `json:"end,omitempty"`      // where the log ends, once the task has ended
	Numbered  int             `json:"numbered,omitempty"` // how many segments have numbers then
	Variables json.RawMessage `json:"variables,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // of the call
}

// Record is a task as it was read, or as it is written.
type Record struct {
	tasks.Task
	Stored   Stored
	Revision uint64 // what the engine knows this version of it by
	// Seen is what it knows the variables by.
	Seen     uint64
	Sealed   bool  // its end is about to be stored with them
	End      int64 // where its log ends
	Head     int64 // where the head of a long log ends, 0 if it is not long (Measure)
	Measured bool  // what is read of the output must be all there is
	Ending   *partials.Ending
	Damage   error // why the record cannot be believed
}

// recordLimit is how long a record may be that is read: variables are the longest part.
const recordLimit = 1 << 20

// Decode reads a record that was stored at a time. What the engine has stored beside it is set then, and Check called.
func (r *Record) Decode(data []byte, at time.Time) {
	if len(data) > recordLimit || !json.Valid(data) || json.Unmarshal(data, &r.Stored) != nil {
		r.Stored = Stored{Created: at.UnixNano(), Updated: at.UnixNano(), TTL: int64(time.Hour)}
		r.Fail(errors.New("its record cannot be read"))
	}
}

// Check makes the task of what is stored, and checks that it is what runnel could have written. outcome reports whether it has one.
func (r *Record) Check(variables []byte, outcome bool) {
	t, s := &r.Task, &r.Stored
	t.CreatedAt, t.UpdatedAt, t.TTL = time.Unix(0, s.Created), time.Unix(0, s.Updated), time.Duration(s.TTL)
	if r.Damage != nil {
		s.Keeper, s.Pieces = "", 0
		return
	}
	r.take()
	if err := r.CheckStored(s.Keeper != "", outcome); err != nil {
		r.Fail(err)
	}
	r.SetVariables(variables)
}

// SetVariables sets variables as they were read.
func (r *Record) SetVariables(stored []byte) {
	var err error
	if r.Variables, err = tasks.DecodeVariables(stored); err != nil {
		r.Fail(err)
	}
}

// take makes the task of what is stored.
func (r *Record) take() {
	t, s := &r.Task, &r.Stored
	t.Tool, t.Status, t.StatusMessage, t.Merge, t.Detached = strings.ToValidUTF8(s.Tool, "�"), s.Status, s.Message, s.Merge, s.Work != nil || s.Offer != nil
	t.UpdatedAt = time.Unix(0, s.Updated)
	t.Arguments = tasks.DecodeArguments(s.Arguments)
	r.End = max(s.End, 0)
	if s.Offer != nil {
		var work struct{ Host string }
		_ = json.Unmarshal(s.Work, &work) // it is for people, and may be missing
		t.Waiting, t.Attempt, t.Worker = r.Waits(), s.Offer.Attempt, strings.ToValidUTF8(tasks.Clip(work.Host), "�")
	}
}

// put makes what is stored of the task.
func (r *Record) put(writer string) {
	t, s := &r.Task, &r.Stored
	s.Tool, s.Status, s.Message, s.Merge, s.Writer = t.Tool, t.Status, t.StatusMessage, t.Merge, writer
	s.Created, s.Updated, s.TTL = t.CreatedAt.UnixNano(), t.UpdatedAt.UnixNano(), int64(t.TTL)
	if t.Arguments != nil {
		s.Arguments = t.Arguments
	}
}

// Fail makes the task one that has failed, since what is stored of it cannot be believed.
func (r *Record) Fail(why error) {
	if r.Damage == nil {
		r.Damage, r.Ending = why, r.FailDamaged(why)
		r.Stored.Keeper, r.Stored.Pieces = "", 0
	}
}

// Terminal reports whether nobody runs the task any more.
func (r *Record) Terminal() bool { return r.Status.Terminal() }
