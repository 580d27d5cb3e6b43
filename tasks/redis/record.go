package redis

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// stored is a task's record as it stands in Redis, as JSON. What others change stands beside it.
type stored struct {
	Tool     string         `json:"tool,omitempty"`
	Status   mcp.TaskStatus `json:"status"`
	Message  string         `json:"message,omitempty"`
	Created  int64          `json:"created"` // nanoseconds since 1970
	Updated  int64          `json:"updated"`
	TTL      int64          `json:"ttl"` // nanoseconds
	Merge    bool           `json:"merge,omitempty"`
	Outcome  int            `json:"outcome,omitempty"`  // how many bytes it has
	Numbered int            `json:"numbered,omitempty"` // how many segments have numbers, once the task has ended

	Arguments json.RawMessage `json:"arguments,omitempty"` // of the call
}

// record is a task as it was read.
type record struct {
	tasks.Task
	stored
	keeper string // "" once the task has ended
	end    int64  // where the log ends
	write  int64  // how often the record was written
	hidden bool   // a call without a handle, which nobody finds
	ending *partials.Ending
	damage error // why the record cannot be believed
}

// recordFields are what is read of a task's hash.
var recordFields = []string{"record", "keeper", "end", "variables", "hidden", "work", "write"}

// recordLimit is how long a record may be that is read.
const recordLimit = 1 << 20

// read decodes a record, and checks that it is one that runnel could have written.
func (r *record) read(owner, id string, fields []string) {
	r.ID, r.Owner, r.keeper, r.hidden, r.Detached = id, owner, fields[1], fields[4] != "", fields[5] != ""
	r.write, _ = strconv.ParseInt(fields[6], 10, 64) // a put that is taken for late then fails its task's end, not others
	if len(fields[0]) > recordLimit || json.Unmarshal([]byte(fields[0]), &r.stored) != nil {
		now := time.Now().UnixNano()
		r.stored = stored{Created: now, Updated: now, TTL: int64(time.Hour)}
		r.fail(errors.New("its record cannot be read"))
	}
	t, s := &r.Task, &r.stored
	t.CreatedAt, t.UpdatedAt, t.TTL = time.Unix(0, s.Created), time.Unix(0, s.Updated), time.Duration(s.TTL)
	var err error
	if r.end, err = strconv.ParseInt(fields[2], 10, 64); err != nil || r.end < 0 {
		r.end = 0
		r.fail(errors.New("it is not known where its output ends"))
	}
	if r.damage != nil {
		return
	}
	t.Tool, t.Status, t.StatusMessage, t.Merge = strings.ToValidUTF8(s.Tool, "�"), s.Status, s.Message, s.Merge
	t.Arguments = tasks.DecodeArguments(s.Arguments)
	if err := r.CheckStored(r.keeper != "", r.stored.Outcome > 0); err != nil {
		r.fail(err)
	} else if t.Variables, err = tasks.DecodeVariables([]byte(fields[3])); err != nil {
		r.fail(err)
	}
}

// put is what is stored of a task that a process writes.
func (s *stored) put(t *tasks.Task) {
	s.Tool, s.Status, s.Message, s.Merge = t.Tool, t.Status, t.StatusMessage, t.Merge
	s.Created, s.Updated, s.TTL = t.CreatedAt.UnixNano(), t.UpdatedAt.UnixNano(), int64(t.TTL)
	if t.Arguments != nil {
		s.Arguments = t.Arguments
	}
}

func (s *stored) encode() (string, error) {
	text, err := json.Marshal(s)
	return string(text), err
}

func (r *record) fail(why error) {
	if r.damage == nil {
		r.damage, r.ending = why, r.FailDamaged(why)
		r.keeper = ""
	}
}

// terminal reports whether nobody runs the task any more.
func (r *record) terminal() bool { return r.Task.Status.Terminal() }

// find reads an owner's task, without its outcome. Its log is what is stored by now.
func (s *State) find(ctx context.Context, owner, id string) (*space, *record, error) {
	if !isToken(id) {
		return nil, nil, tasks.ErrNotFound
	}
	sp, err := s.space(ctx, owner)
	if err != nil {
		return nil, nil, err
	}
	found, err := sp.records(ctx, []string{id})
	if err != nil {
		return nil, nil, err
	}
	if found[0] == nil {
		return nil, nil, tasks.ErrNotFound
	}
	return sp, found[0], nil
}

// records reads tasks; those that cannot be seen are nil.
func (sp *space) records(ctx context.Context, ids []string) ([]*record, error) {
	list := make([]*record, len(ids))
	for i, answer := range sp.each(ctx, ids, func(b rueidis.Builder, id string) rueidis.Completed {
		return b.Hmget().Key(sp.root + "task:" + id).Field(recordFields...).Build()
	}) {
		if err := answer.NonRedisError(); err != nil {
			return nil, sp.unreachable(err)
		}
		r, err := &record{}, answer.Error()
		if fields, _ := answer.AsStrSlice(); err == nil && len(fields) == len(recordFields) {
			if strings.Join(fields, "") == "" { // it is not there
				continue
			}
			r.read(sp.owner, ids[i], fields)
		} else if err != nil && !strings.HasPrefix(err.Error(), "WRONGTYPE") {
			return nil, refused(err)
		} else {
			r.read(sp.owner, ids[i], make([]string, len(recordFields)))
		}
		if r.Expired(sp.s.o.Now()) || r.hidden && !sp.s.o.Calls && r.damage == nil {
			continue
		}
		if r.damage != nil {
			sp.s.o.Log.Error().Str("taskId", r.ID).Err(r.damage).Msg("the state is damaged: a task cannot be read")
		}
		list[i] = r
	}
	return list, nil
}

// each asks the server for something of several tasks at once, and again if it does not answer.
func (sp *space) each(ctx context.Context, ids []string, command func(b rueidis.Builder, id string) rueidis.Completed) []rueidis.RedisResult {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	c := sp.s.client
	for {
		all := make([]rueidis.Completed, len(ids))
		for i, id := range ids {
			all[i] = command(c.B(), id)
		}
		answers := c.DoMulti(ctx, all...)
		silent := false
		for _, a := range answers {
			refusal, said := rueidis.IsRedisErr(a.Error())
			silent = silent || a.NonRedisError() != nil || said && passes(refusal.Error())
		}
		if !silent {
			return answers
		}
		select {
		case <-time.After(tryAgain):
		case <-ctx.Done():
			return answers
		}
	}
}

// outcome reads the outcome of a task that has ended.
func (sp *space) outcome(ctx context.Context, r *record) error {
	if r.damage != nil || !r.terminal() {
		return nil
	}
	answer, err := sp.read(ctx, func(b rueidis.Builder) rueidis.Completed {
		return b.Get().Key(sp.root + "result:" + r.ID).Build()
	})
	if err != nil {
		return err
	}
	encoded, err := answer.AsBytes()
	if err != nil || len(encoded) != r.stored.Outcome {
		if again, err := sp.records(ctx, []string{r.ID}); err != nil || again[0] == nil { // it was deleted meanwhile
			return errors.Join(err, tasks.ErrNotFound)
		}
		r.fail(errors.New("its result is missing, or a part of it"))
		return nil
	}
	outcome, ending, err := tasks.DecodeOutcome(bytes.Clone(encoded))
	if err != nil {
		r.fail(err)
		return nil
	}
	r.Task.Outcome, r.ending = outcome, ending
	return nil
}
