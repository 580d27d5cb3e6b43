package redis

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"runnel/partials"
	"runnel/tasks"
)

// output is what is stored of a task's output.
type output struct {
	sp *space
	id string
}

// Due implements partials.Backing: nothing is written here.
func (o output) Due(bool) {}

// Load implements partials.Backing.
func (o output) Load(ctx context.Context, pos int64, limit int) (list []partials.Extent, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	for len(list) == 0 { // what is damaged is passed over
		answer, err := o.sp.try(ctx, func() rueidis.RedisResult {
			return o.sp.exec(ctx, "load", o.id, 0, []string{strconv.FormatInt(pos, 10), strconv.Itoa(limit)})
		})
		if err != nil {
			return nil, err
		}
		entries, err := answer.AsXRange()
		if err != nil || len(entries) == 0 {
			return nil, nil //nolint:nilerr // there is none that can be read: it counts as no longer kept
		}
		list = o.extents(entries, pos)
		if pos, err = position(entries[len(entries)-1].ID); err != nil {
			return list, nil //nolint:nilerr // nor can anything after it
		}
	}
	return list, nil
}

// extents are the stretches that go on after pos, up to a gap.
func (o output) extents(entries []rueidis.XRangeEntry, pos int64) (list []partials.Extent) {
	for _, entry := range entries {
		e, err := extent(entry)
		if n := len(list); err == nil && n > 0 && e.Start < list[n-1].End() {
			err = errors.New("it overlaps what is before it")
		}
		if err != nil {
			o.sp.s.o.Log.Error().Str("taskId", o.id).Err(err).Msg("the state is damaged: a part of the output cannot be read")
			continue // it counts as no longer kept
		}
		if n := len(list); n > 0 && list[n-1].End() != e.Start {
			break // a gap: the rest is read by itself
		}
		if e.End() > pos {
			list = append(list, e)
		}
	}
	return list
}

// extent reads a stretch, and checks that it is one that runnel could have written.
func extent(entry rueidis.XRangeEntry) (e partials.Extent, err error) {
	end, err := position(entry.ID)
	if err != nil {
		return e, err
	}
	e.Marks, e.Data = []byte(entry.FieldValues["m"]), []byte(entry.FieldValues["d"])
	if e.Start = end - int64(len(e.Data)); e.Start < 0 {
		return e, errors.New("it is longer than the output before it and with it")
	}
	return e, e.Check()
}

// position is the number in an entry's id.
func position(id string) (int64, error) {
	number, _, _ := strings.Cut(id, "-")
	return strconv.ParseInt(number, 10, 64)
}

// ends reads the numbers of a task's segments after number n, whose segment ends at position last, up to the log's end.
func (sp *space) ends(ctx context.Context, r *record, n int, last int64) (ends []int64, err error) {
	if r.damage != nil {
		return nil, nil
	}
	answer, err := sp.read(ctx, func(b rueidis.Builder) rueidis.Completed {
		return b.Xrange().Key(sp.root + "ends:" + r.ID).Start(strconv.Itoa(n+1) + "-0").End("+").Count(math.MaxInt32).Build()
	})
	if err != nil && !errors.As(err, new(*rueidis.RedisError)) {
		return nil, err
	}
	entries, err := answer.AsXRange()
	if err != nil && !rueidis.IsRedisNil(err) {
		return nil, partials.ErrEnds
	}
	for _, entry := range entries {
		to, err := position(entry.ID)
		first, failed := strconv.ParseInt(entry.FieldValues["f"], 10, 64)
		if err != nil || failed != nil || first != int64(n+len(ends))+1 {
			return nil, partials.ErrEnds
		}
		row, err := partials.DecodeEnds(last, []byte(entry.FieldValues["e"]))
		if err != nil || len(row) == 0 || int64(n+len(ends)+len(row)) != to {
			return nil, partials.ErrEnds
		}
		if row[len(row)-1] > r.end { // stored since the end was read
			break
		}
		ends, last = append(ends, row...), row[len(row)-1]
	}
	if n+len(ends) < r.Numbered {
		return ends, partials.ErrEnds
	}
	return ends, nil
}

// log is what is stored of a task's output, to be read.
func (sp *space) log(r *record) *partials.Log {
	return partials.Stored(output{sp, r.ID}, r.end)
}

var _ tasks.State = (*State)(nil)
