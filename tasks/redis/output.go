package redis

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"runnel/partials"
	"runnel/tasks/engine"
)

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
