package dynamodb

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"runnel/tasks"
	"runnel/tasks/engine"
)

// decode makes a record from an item.
func (sp *space) decode(id string, i item) *engine.Record {
	r := &engine.Record{}
	r.ID, r.Owner = id, sp.of.Owner
	write, _ := numberOf(i, "write") // if it is damaged, only the end of this task fails
	r.Revision = uint64(write)
	p := engine.Parts{Keeper: textOf(i, "keeper"), Writer: textOf(i, "by"), Hidden: i["hidden"] != nil,
		Variables: []byte(textOf(i, "variables"))}
	var ok bool
	if p.End, ok = numberOf(i, "end"); !ok {
		p.End = -1
	}
	if i["work"] != nil {
		p.Work = []byte(textOf(i, "work"))
	}
	if i["variables"] != nil && len(p.Variables) == 0 {
		r.Fail(errors.New("its variables cannot be read"))
	}
	r.DecodeParts([]byte(textOf(i, "record")), p)
	return r
}

// Read implements engine.Driver.
func (sp *space) Read(ctx context.Context, id string) (*engine.Record, error) {
	i, err := sp.get(ctx, sp.recordKey(id))
	switch {
	case err != nil:
		return nil, err
	case i == nil:
		return nil, tasks.ErrNotFound
	}
	return sp.decode(id, i), nil
}

// Extent implements engine.Driver: Read has found it.
func (sp *space) Extent(context.Context, *engine.Record, int64) error { return nil }

// records reads the records of tasks; nil for those that do not exist.
func (sp *space) records(ctx context.Context, ids []string) ([]item, error) {
	var keys []item
	found := map[string]item{}
	for _, id := range ids {
		if _, twice := found[sp.root+ofTask(id)]; !twice { // DynamoDB refuses duplicates
			keys = append(keys, sp.recordKey(id))
			found[sp.root+ofTask(id)] = nil
		}
	}
	all, err := sp.getAll(ctx, keys)
	for _, i := range all {
		found[textOf(i, "pk")] = i
	}
	list := make([]item, len(ids))
	for n, id := range ids {
		list[n] = found[sp.root+ofTask(id)]
	}
	return list, err
}

// someTasks is how many tasks are read at once.
const someTasks = 1000

// firstPlace comes before all tasks, since no machine's clock is that slow.
var firstPlace = uint64(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())

// Place implements engine.Driver.
func (sp *space) Place(ctx context.Context, id string) (uint64, error) {
	i, err := sp.get(ctx, sp.recordKey(id))
	if err != nil {
		return 0, err
	}
	place, ok := numberOf(i, "place")
	if !ok || place < 1 {
		return 0, tasks.ErrCursor
	}
	return uint64(place), nil
}

// List implements engine.Driver.
func (sp *space) List(ctx context.Context, d tasks.Direction, after uint64, n int) ([]engine.Place, error) {
	if after > 0 && after < firstPlace {
		return nil, tasks.ErrCursor
	}
	part := span{partition: "tasks", limit: min(n, someTasks), backwards: d == tasks.NewestFirst,
		filter: "#expires > :now", values: item{":now": number(sp.of.Now().Unix())}}
	switch {
	case d == tasks.OldestFirst:
		part.from = placeText(after + 1)
	case after > 0:
		part.to = placeText(after - 1)
	}
	for next := item(nil); ; {
		found, _, rest, err := sp.page(ctx, part, next)
		if err != nil {
			return nil, err
		}
		var places []engine.Place
		var ids []string
		for _, i := range found {
			place, err := strconv.ParseUint(textOf(i, "sk"), 16, 64)
			// An item without these is none of runnel's.
			if id := textOf(i, "id"); err == nil && engine.IsToken(id) {
				ids, places = append(ids, id), append(places, engine.Place{Number: place})
			}
		}
		records, err := sp.records(ctx, ids)
		if err != nil {
			return nil, err
		}
		for n, i := range records {
			if i == nil {
				continue
			}
			// A task with another place was hidden when this was read.
			if place, _ := numberOf(i, "place"); uint64(place) == places[n].Number {
				places[n].Record = sp.decode(ids[n], i)
			}
		}
		if next = rest; len(places) > 0 || next == nil {
			return places, nil
		}
	}
}

// Outcome implements engine.Driver.
func (sp *space) Outcome(ctx context.Context, r *engine.Record) (encoded []byte, err error) {
	s := &r.Stored
	for next, n := item(nil), 0; ; {
		pieces, _, rest, err := sp.page(ctx,
			span{partition: ofTask(r.ID), from: resultPlace(s.Attempt, 0), to: "result:" + s.Attempt + ".~"},
			next)
		if err != nil {
			return nil, err
		}
		for _, p := range pieces {
			if textOf(p, "sk") != resultPlace(s.Attempt, n) {
				break // a piece is missing
			}
			encoded, n = append(encoded, dataOf(p, "data")...), n+1
		}
		if next = rest; next == nil || len(encoded) > s.Outcome {
			break
		}
	}
	if len(encoded) != s.Outcome {
		if _, err := sp.Read(ctx, r.ID); err != nil { // it was deleted meanwhile
			return nil, err
		}
		return nil, engine.Damage("its result is missing, or a part of it")
	}
	return encoded, nil
}

// Measure implements engine.Driver. It has nothing to do, since reads are consistent.
func (sp *space) Measure(context.Context, *engine.Record) error { return nil }

// Fetched implements engine.Driver.
func (sp *space) Fetched(ctx context.Context, ids []string) (map[string]bool, error) {
	fetched := map[string]bool{}
	for some := range slices.Chunk(ids, someTasks) {
		records, err := sp.records(ctx, some)
		if err != nil {
			return nil, err
		}
		for n, i := range records {
			fetched[some[n]] = i["fetched"] != nil
		}
	}
	return fetched, nil
}

func (sp *space) recordKey(id string) item { return sp.key(ofTask(id), recordPlace) }
