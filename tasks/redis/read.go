package redis

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"runnel/internal/pause"
	"runnel/partials"
	"runnel/tasks"
	"runnel/tasks/engine"
)

// recordFields are the fields of a task's hash that are read.
var recordFields = []string{"record", "keeper", "end", "variables", "hidden", "work", "write", "by"}

// decode makes a record of these fields.
func (sp *space) decode(id string, fields []string) *engine.Record {
	r := &engine.Record{}
	r.ID, r.Owner = id, sp.Owner
	r.Revision, _ = strconv.ParseUint(fields[6], 10, 64) // if it is damaged, only the end of this task fails
	p := engine.Parts{Keeper: fields[1], Variables: []byte(fields[3]), Hidden: fields[4] != "",
		Writer: fields[7]}
	var err error
	if p.End, err = strconv.ParseInt(fields[2], 10, 64); err != nil {
		p.End = -1
	}
	if fields[5] != "" {
		p.Work = []byte(fields[5])
	}
	r.DecodeParts([]byte(fields[0]), p)
	return r
}

// Read implements engine.Driver.
func (sp *space) Read(ctx context.Context, id string) (*engine.Record, error) {
	found, err := sp.records(ctx, []string{id})
	if err != nil {
		return nil, err
	}
	if found[0] == nil {
		return nil, tasks.ErrNotFound
	}
	return found[0], nil
}

// Extent implements engine.Driver: Read has found it.
func (sp *space) Extent(context.Context, *engine.Record, int64) error { return nil }

// records reads tasks. Those that do not exist are nil.
func (sp *space) records(ctx context.Context, ids []string) ([]*engine.Record, error) {
	list := make([]*engine.Record, len(ids))
	for i, answer := range sp.each(ctx, ids, func(b rueidis.Builder, id string) rueidis.Completed {
		return b.Hmget().Key(sp.root + "task:" + id).Field(recordFields...).Build()
	}) {
		if err := answer.NonRedisError(); err != nil {
			return nil, sp.unreachable(err)
		}
		fields, _ := answer.AsStrSlice()
		switch err := answer.Error(); {
		case err != nil && !strings.HasPrefix(err.Error(), "WRONGTYPE"):
			return nil, refused(err)
		case err != nil || len(fields) != len(recordFields):
			fields = make([]string, len(recordFields))
		case strings.Join(fields, "") == "": // it is not there
			continue
		}
		list[i] = sp.decode(ids[i], fields)
	}
	return list, nil
}

// each sends one command for each of several tasks at once, and sends them again if no answer comes.
func (sp *space) each(ctx context.Context, ids []string,
	command func(b rueidis.Builder, id string) rueidis.Completed) []rueidis.RedisResult {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	c := sp.server.client
	for {
		all := make([]rueidis.Completed, len(ids))
		for i, id := range ids {
			all[i] = command(c.B(), id)
		}
		answers := c.DoMulti(ctx, all...)
		silent := false
		for _, a := range answers {
			refusal, said := rueidis.IsRedisErr(a.Error())
			lost := a.NonRedisError()
			silent = silent || lost != nil && !errors.As(lost, new(badReply)) ||
				said && passes(refusal.Error())
		}
		if !silent || !pause.For(ctx, tryAgain) {
			return answers
		}
	}
}

// someTasks is how many tasks are read at once.
const someTasks = 1000

// List implements engine.Driver. Entries of the index that runnel cannot have made are skipped.
func (sp *space) List(ctx context.Context, d tasks.Direction, after uint64,
	n int) (places []engine.Place, err error) {
	from := float64(after)
	if d == tasks.NewestFirst && after == 0 {
		last, err := sp.lastPlace(ctx)
		if err != nil {
			return nil, err
		}
		from = float64(last) + 1
	}
	for len(places) == 0 {
		scores, err := sp.index(ctx, d, from, n)
		if err != nil {
			return nil, err
		}
		last, err := sp.lastPlace(ctx) // after the index was read: no task in it has a later place
		if err != nil {
			return nil, err
		}
		if after > last {
			return nil, tasks.ErrCursor
		}
		var ids []string
		for _, score := range scores {
			from = score.Score
			if from != math.Trunc(from) || from > float64(last) || !engine.IsToken(score.Member) {
				sp.Log.Error().Str("owner", sp.Owner).Str("key", sp.root+"tasks").Str("entry", score.Member).
					Float64("score", from).
					Msg("the state is damaged: an entry of its index is skipped, which runnel has not " +
						"made (ZREM removes it)")
				continue
			}
			ids = append(ids, score.Member)
			places = append(places, engine.Place{Number: uint64(from)})
		}
		found, err := sp.records(ctx, ids)
		if err != nil {
			return nil, err
		}
		for i := range places {
			places[i].Record = found[i]
		}
		if len(scores) == 0 || math.IsInf(from, 1) {
			break
		}
	}
	return places, nil
}

// Place implements engine.Driver.
func (sp *space) Place(ctx context.Context, id string) (uint64, error) {
	answer, err := sp.read(ctx, func(b rueidis.Builder) rueidis.Completed {
		return b.Zscore().Key(sp.root + "tasks").Member(id).Build()
	})
	if err != nil {
		return 0, err
	}
	place, err := answer.AsFloat64()
	if err != nil || place < 1 || place != math.Trunc(place) { // it has none, or the index is damaged
		return 0, tasks.ErrCursor
	}
	return uint64(place), nil
}

// index returns up to n entries of the index after a score, in a direction.
func (sp *space) index(ctx context.Context, d tasks.Direction, from float64,
	n int) ([]rueidis.ZScore, error) {
	beyond, some := "("+strconv.FormatFloat(from, 'f', -1, 64), int64(min(n, someTasks))
	answer, err := sp.read(ctx, func(b rueidis.Builder) rueidis.Completed {
		if d == tasks.NewestFirst {
			return b.Zrevrangebyscore().Key(sp.root+"tasks").Max(beyond).Min("(0").Withscores().
				Limit(0, some).Build()
		}
		return b.Zrangebyscore().Key(sp.root+"tasks").Min(beyond).Max("+inf").Withscores().
			Limit(0, some).Build()
	})
	if err != nil {
		return nil, err
	}
	return answer.AsZScores()
}

// lastPlace returns the place of the newest task. If the server has dropped the counter, it is that of the
// last entry of the index which runnel can have made.
func (sp *space) lastPlace(ctx context.Context) (uint64, error) {
	answer, err := sp.read(ctx, func(b rueidis.Builder) rueidis.Completed {
		return b.Get().
			Key(sp.root + "last").Build()
	})
	if err != nil {
		return 0, err
	}
	if last, err := answer.AsUint64(); err == nil {
		return last, nil
	}
	answer, err = sp.read(ctx, func(b rueidis.Builder) rueidis.Completed {
		return b.Zrevrangebyscore().Key(sp.root+"tasks").Max(mostPlace).Min("0").Withscores().
			Limit(0, 1).Build()
	})
	if err != nil {
		return 0, err
	}
	newest, err := answer.AsZScores()
	if err != nil || len(newest) == 0 {
		return 0, err
	}
	return uint64(newest[0].Score), nil
}

// mostPlace is the highest score that is a whole number for certain, less one.
const mostPlace = "9007199254740990"

// Outcome implements engine.Driver.
func (sp *space) Outcome(ctx context.Context, r *engine.Record) ([]byte, error) {
	answer, err := sp.read(ctx, func(b rueidis.Builder) rueidis.Completed {
		return b.Get().Key(sp.root + "result:" + r.ID).Build()
	})
	if err != nil {
		return nil, err
	}
	encoded, err := answer.AsBytes()
	if err != nil || len(encoded) != r.Stored.Outcome {
		if _, err := sp.Read(ctx, r.ID); err != nil { // it was deleted meanwhile
			return nil, err
		}
		return nil, engine.Damage("its result is missing, or a part of it")
	}
	return bytes.Clone(encoded), nil
}

// Measure implements engine.Driver: what was read is all there is.
func (sp *space) Measure(context.Context, *engine.Record) error { return nil }

// Fetched implements engine.Driver.
func (sp *space) Fetched(ctx context.Context, ids []string) (map[string]bool, error) {
	fetched := map[string]bool{}
	for i, answer := range sp.each(ctx, ids, func(b rueidis.Builder, id string) rueidis.Completed {
		return b.Hexists().Key(sp.root + "task:" + id).Field("fetched").Build()
	}) {
		if err := answer.NonRedisError(); err != nil {
			return nil, sp.unreachable(err)
		}
		fetched[ids[i]], _ = answer.AsBool()
	}
	return fetched, nil
}

// output is what is stored of a task's output.
type output struct {
	sp *space
	id string
}

// Output implements engine.Driver.
func (sp *space) Output(id string, _ func() int64) engine.Output { return output{sp, id} }

// Load implements engine.Output.
func (o output) Load(ctx context.Context, pos int64, limit int) ([]partials.Extent, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	all := o.sp.Extents(o.id, pos)
	for len(all.List) == 0 { // damaged entries are skipped
		answer, err := o.sp.try(ctx, func() rueidis.RedisResult {
			return o.sp.exec(ctx, "load", o.id, 0, []string{strconv.FormatInt(pos, 10), strconv.Itoa(limit)})
		})
		if err != nil {
			return nil, err
		}
		entries, err := answer.AsXRange()
		if err != nil || len(entries) == 0 {
			return all.List, nil //nolint:nilerr // there is none that can be read: it counts as no longer kept
		}
		for _, entry := range entries {
			all.Add(extent(entry))
		}
		if pos, err = position(entries[len(entries)-1].ID); err != nil {
			return all.List, nil //nolint:nilerr // nor can anything after it
		}
	}
	return all.List, nil
}

// extent makes an extent of an entry.
func extent(entry rueidis.XRangeEntry) (e partials.Extent, err error) {
	end, err := position(entry.ID)
	e.Marks, e.Data = []byte(entry.FieldValues["m"]), []byte(entry.FieldValues["d"])
	if e.Start = end - int64(len(e.Data)); err == nil && e.Start < 0 {
		err = errors.New("it is longer than all the output up to its end")
	}
	return e, err
}

// position is the number in an entry's id.
func position(id string) (int64, error) {
	number, _, _ := strings.Cut(id, "-")
	return strconv.ParseInt(number, 10, 64)
}

// Ends implements engine.Driver.
func (sp *space) Ends(ctx context.Context, r *engine.Record, n int, last int64) ([]int64, error) {
	if r.Damage != nil {
		return nil, nil
	}
	answer, err := sp.read(ctx, func(b rueidis.Builder) rueidis.Completed {
		return b.Xrange().Key(sp.root + "ends:" + r.ID).Start(strconv.Itoa(n+1) + "-0").End("+").
			Count(math.MaxInt32).Build()
	})
	if err != nil && !errors.As(err, new(*rueidis.RedisError)) {
		return nil, err
	}
	entries, err := answer.AsXRange()
	if err != nil && !rueidis.IsRedisNil(err) {
		return nil, partials.ErrEnds
	}
	numbers := r.Numbers(n, last)
	for _, entry := range entries {
		first, err := strconv.ParseInt(entry.FieldValues["f"], 10, 64)
		if err != nil {
			return nil, partials.ErrEnds
		}
		more, err := numbers.Add(first, []byte(entry.FieldValues["e"]))
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
	}
	return numbers.Ends()
}
