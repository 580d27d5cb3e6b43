package nats

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// stored is a task's record as it stands in the stream, as JSON.
type stored struct {
	Tool      string          `json:"tool,omitempty"`
	Status    mcp.TaskStatus  `json:"status"`
	Message   string          `json:"message,omitempty"`
	Created   int64           `json:"created"` // nanoseconds since 1970
	Updated   int64           `json:"updated"`
	TTL       int64           `json:"ttl"` // nanoseconds
	Merge     bool            `json:"merge,omitempty"`
	Hidden    bool            `json:"hidden,omitempty"` // a call without a handle, which nobody finds
	Keeper    string          `json:"keeper,omitempty"` // "" once the task has ended
	Work      json.RawMessage `json:"work,omitempty"`   // of a detached task: what runs it
	Offer     *waiting        `json:"offer,omitempty"`  // of a task that workers run (queue.go)
	Writer    string          `json:"writer"`           // the process that has written this
	Attempt   string          `json:"attempt,omitempty"`
	Pieces    int             `json:"pieces,omitempty"`   // of the outcome of that attempt
	End       int64           `json:"end,omitempty"`      // where the log ends, once the task has ended
	Numbered  int             `json:"numbered,omitempty"` // how many segments have numbers then
	Variables json.RawMessage `json:"variables,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // of the call
}

// record is a task as it was read.
type record struct {
	tasks.Task
	stored
	revision  uint64
	end       int64  // where the log ends
	variables uint64 // the sequence number of the variables, 0 if there are none
	sealed    bool   // its end is about to be stored with them
	ending    *partials.Ending
	damage    error // why the record cannot be believed
}

// recordLimit is how long a record may be that is read: variables are the longest part.
const recordLimit = maxMessage

// read decodes a record, and checks that it is one that runnel could have written.
func (r *record) read(owner, id string, m *jetstream.RawStreamMsg) {
	r.revision, r.ID, r.Owner = m.Sequence, id, owner
	if len(m.Data) > recordLimit || !json.Valid(m.Data) || json.Unmarshal(m.Data, &r.stored) != nil {
		r.stored = stored{Created: m.Time.UnixNano(), Updated: m.Time.UnixNano(), TTL: int64(time.Hour)}
		r.take()
		r.fail(errors.New("its record cannot be read"))
		return
	}
	r.take()
	if err := r.CheckStored(r.Keeper != "", r.Pieces > 0); err != nil {
		r.fail(err)
	}
	var err error
	if r.Task.Variables, err = tasks.DecodeVariables(r.stored.Variables); err != nil {
		r.fail(err)
	}
}

// take makes the task of what is stored.
func (r *record) take() {
	t, s := &r.Task, &r.stored
	t.Tool, t.Status, t.StatusMessage, t.Merge, t.Detached = strings.ToValidUTF8(s.Tool, "�"), s.Status, s.Message, s.Merge, s.Work != nil || s.Offer != nil
	t.CreatedAt, t.UpdatedAt, t.TTL = time.Unix(0, s.Created), time.Unix(0, s.Updated), time.Duration(s.TTL)
	t.Arguments = tasks.DecodeArguments(s.Arguments)
	r.end = max(s.End, 0)
	if s.Offer != nil {
		var work struct{ Host string }
		_ = json.Unmarshal(s.Work, &work) // it is for people, and may be missing
		t.Waiting, t.Attempt, t.Worker = s.Keeper == queueKeeper && !t.Status.Terminal(), s.Offer.Attempt, strings.ToValidUTF8(tasks.Clip(work.Host), "�")
	}
}

// put is what is stored of a task that a process writes.
func (r *stored) put(t *tasks.Task, writer string) {
	r.Tool, r.Status, r.Message, r.Merge, r.Writer = t.Tool, t.Status, t.StatusMessage, t.Merge, writer
	r.Created, r.Updated, r.TTL = t.CreatedAt.UnixNano(), t.UpdatedAt.UnixNano(), int64(t.TTL)
	if t.Arguments != nil {
		r.Arguments = t.Arguments
	}
}

func (r *record) fail(why error) {
	if r.damage == nil {
		r.damage, r.ending = why, r.FailDamaged(why)
		r.Keeper, r.Pieces = "", 0
	}
}

// terminal reports whether nobody runs the task any more.
func (r *record) terminal() bool { return r.Status().Terminal() }

// Status is the task's, not that of what is stored, which may be damaged.
func (r *record) Status() mcp.TaskStatus { return r.Task.Status }

// find reads an owner's task, without its outcome. Its log is what is stored by now.
func (s *State) find(ctx context.Context, owner, id string) (*space, *record, error) {
	if !isToken(id) {
		return nil, nil, tasks.ErrNotFound
	}
	sp, err := s.space(ctx, owner)
	if err != nil {
		return nil, nil, err
	}
	r, err := sp.record(ctx, id)
	if err == nil && r.Hidden && !s.o.Calls {
		err = tasks.ErrNotFound
	}
	return sp, r, err
}

func (sp *space) record(ctx context.Context, id string) (*record, error) {
	m, err := sp.newest(ctx, sp.subject(id, "task"))
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, tasks.ErrNotFound
	}
	r := &record{}
	r.read(sp.owner, id, m)
	if r.Expired(sp.s.o.Now()) {
		return nil, tasks.ErrNotFound
	}
	if !r.terminal() {
		messages, err := sp.lastOf(ctx, sp.subject(id, "log.*"), sp.subject(id, "variables"))
		if err != nil {
			return nil, err
		}
		for _, m := range messages {
			if m.Subject == sp.subject(id, "variables") {
				r.variables, r.sealed = m.Sequence, m.Header.Get(sealHeader) == strconv.FormatUint(r.revision, 10)
				if r.Task.Variables, err = tasks.DecodeVariables(m.Data); err != nil {
					r.fail(err)
				}
			} else if e, err := extent(m); err == nil {
				r.end = max(r.end, e.End())
			}
		}
	}
	if r.damage != nil {
		sp.s.o.Log.Error().Str("taskId", id).Err(r.damage).Msg("the state is damaged: a task cannot be read")
	}
	return r, nil
}

// pieceBytes is how much of an outcome is one message.
const pieceBytes = 512 << 10

// outcome reads the outcome of a task that has ended.
func (sp *space) outcome(ctx context.Context, r *record) error {
	if r.damage != nil || !r.terminal() {
		return nil
	}
	var all bytes.Buffer
	subject, next, n := sp.subject(r.ID, "result."+r.stored.Attempt), uint64(1), 0
	for n < r.Pieces {
		var messages []*jetstream.RawStreamMsg
		err := sp.caught(ctx, func(from fetch) (_ bool, err error) {
			messages, err = from(ctx, next, subject, r.Pieces-n, 4*pieceBytes)
			return len(messages) > 0, err
		})
		if err != nil {
			return err
		}
		if len(messages) == 0 {
			r.fail(errors.New("a part of its result is missing"))
			return nil
		}
		for _, m := range messages {
			all.Write(m.Data)
			next = m.Sequence + 1
			n++
		}
	}
	outcome, ending, err := tasks.DecodeOutcome(all.Bytes())
	if err != nil {
		r.fail(err)
		return nil
	}
	r.Outcome, r.ending = outcome, ending
	return nil
}

// ends reads the numbers of a task's segments after number n, whose segment ends at position last, up to the log's end.
func (sp *space) ends(ctx context.Context, r *record, n int, last int64) (ends []int64, err error) {
	err = sp.caught(ctx, func(from fetch) (_ bool, err error) {
		ends, err = sp.endsFrom(ctx, from, r, n, last)
		return n+len(ends) >= r.Numbered, err
	})
	if err == nil && n+len(ends) < r.Numbered {
		err = partials.ErrEnds
	}
	return ends, err
}

// endsFrom is ends as far as from finds them.
func (sp *space) endsFrom(ctx context.Context, from fetch, r *record, n int, last int64) (ends []int64, err error) {
	const some = 256
	for next := uint64(1); ; {
		messages, err := from(ctx, next, sp.subject(r.ID, "ends"), some, 1<<20)
		if err != nil || len(messages) == 0 {
			return ends, err
		}
		for _, m := range messages {
			first, err := number(m, firstHeader)
			if err != nil || first > int64(n+len(ends))+1 {
				return nil, partials.ErrEnds
			}
			row, err := partials.DecodeEnds(last, m.Data)
			switch {
			case first <= int64(n): // known
			case err != nil || first <= int64(n+len(ends)):
				return nil, partials.ErrEnds
			case len(row) > 0 && row[len(row)-1] > r.end: // stored since the end was read
				return ends, nil
			case len(row) > 0:
				ends, last = append(ends, row...), row[len(row)-1]
			}
			next = m.Sequence + 1
		}
	}
}
