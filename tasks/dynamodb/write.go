package dynamodb

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/engine"
)

// Each write is one transaction, or changes one item under a condition. It may be sent again if there was no
// answer, and then notices whether the first try succeeded.

// pieceBytes is how much of a result, an extent of output or variables one item holds. DynamoDB allows 400 KB
// for an item with all its attributes.
const pieceBytes = 300 << 10

// fits returns an error for variables that do not fit into the item.
func fits(variables []byte) error {
	if len(variables) > pieceBytes {
		return rpc.Errorf(mcp.CodeInvalidParams,
			"the variables take %d bytes together; the limit of a state in DynamoDB is %d", len(variables),
			pieceBytes)
	}
	return nil
}

// Insert implements engine.Driver.
func (sp *space) Insert(ctx context.Context, r *engine.Record) error {
	return sp.admit(ctx, r, func(gate ...types.TransactWriteItem) error { return sp.insert(ctx, r, gate) })
}

func (sp *space) insert(ctx context.Context, r *engine.Record, gate []types.TransactWriteItem) error {
	record, err := r.EncodeRest()
	if err == nil {
		err = fits(r.Variables)
	}
	if err != nil {
		return err
	}
	place := sp.placeNow()
	keeper := text(sp.of.Keeper)
	expires := sp.expiry(&r.Task)
	task := with(sp.recordKey(r.ID), item{
		"record": text(string(record)), "keeper": keeper, "end": number(0), "write": number(1),
		"place": number(int64(place)), "expires": expires,
	})
	order := with(sp.placeKey(place), item{"id": text(r.ID), "expires": expires})
	if len(r.Variables) > 0 {
		task["variables"] = text(string(r.Variables))
	}
	if r.Hidden {
		task["hidden"], order["hidden"] = text("1"), text("1")
	}
	if tasks.IsFiles(r.ID) {
		order["files"] = text("1")
	}
	changes := append([]types.TransactWriteItem{sp.putNew(task), sp.put(order), sp.marking(r, r.Hidden)},
		gate...)
	if err := settled(sp.write(ctx, changes...), sp.keeps); err != nil {
		return err
	}
	r.Revision = 1
	return nil
}

// keeps reports whether this process is the keeper of the task in an item.
func (sp *space) keeps(there item) bool { return textOf(there, "keeper") == sp.of.Keeper }

// marking is the change that marks a task as kept by this process.
func (sp *space) marking(r *engine.Record, hidden bool) types.TransactWriteItem {
	marked := with(sp.key("live", mark(r.ID, hidden)),
		item{"keeper": text(sp.of.Keeper), "expires": sp.expiry(&r.Task)})
	if tasks.IsFiles(r.ID) {
		marked["files"] = text("1")
	}
	return sp.put(marked)
}

// startsWindow is the period for which MaxStartsPerMinute counts.
const startsWindow = time.Minute

// admit stores a task with store, unless the task is beyond the limits of its owner; hidden ones are not
// limited. gate is a change that fails if another task was admitted since the count: then it counts again.
func (sp *space) admit(ctx context.Context, r *engine.Record,
	store func(gate ...types.TransactWriteItem) error) error {
	limits := sp.of.Limits
	if r.Task.Ending || r.Hidden || limits.MaxLive <= 0 && limits.MaxStartsPerMinute <= 0 {
		return store()
	}
	key := sp.key("admitted", "all")
	for {
		before, err := sp.get(ctx, key) // before the count
		if err != nil {
			return err
		}
		if err := sp.checkLimits(ctx); err != nil {
			return err
		}
		n, _ := numberOf(before, "write")
		condition, values := "attribute_not_exists(#write)", item{":next": number(n + 1)}
		if before["write"] != nil {
			condition = "#write = :n"
			values[":n"] = number(n)
		}
		err = store(sp.update(key, "SET #write = :next", condition, values))
		if !errors.Is(err, tasks.ErrFenced) {
			return err
		}
		now, failed := sp.get(ctx, key)
		if after, _ := numberOf(now, "write"); failed != nil || after == n {
			return cmp.Or(failed, err) // it was refused for another reason
		}
	}
}

// checkLimits returns an error if the owner has as many tasks as it may have. Those that keep files of
// others, which have the attribute files, do not count: a filter cannot look at a key.
func (sp *space) checkLimits(ctx context.Context) error {
	if most := sp.of.Limits.MaxLive; most > 0 {
		n, err := sp.count(ctx, span{partition: "live", from: mark("", false), to: mark("~", false),
			filter: "attribute_not_exists(#files)"}, most)
		if err != nil {
			return err
		}
		if n >= most {
			return tasks.ErrTooManyLive
		}
	}
	if most := sp.of.Limits.MaxStartsPerMinute; most > 0 {
		since := placeText(uint64(sp.of.Now().Add(-startsWindow).UnixNano()))
		n, err := sp.count(ctx, span{partition: "tasks", from: since,
			filter: "attribute_not_exists(#hidden) AND attribute_not_exists(#files)"}, most)
		if err != nil {
			return err
		}
		if n >= most {
			return tasks.ErrTooManyStarts
		}
	}
	return nil
}

// Write implements engine.Driver.
func (sp *space) Write(ctx context.Context, r *engine.Record, wasHidden bool) error {
	if !wasHidden {
		return sp.rewrite(ctx, r, false, nil)
	}
	return sp.admit(ctx, r, func(gate ...types.TransactWriteItem) error {
		return sp.rewrite(ctx, r,
			true, gate)
	})
}

func (sp *space) rewrite(ctx context.Context, r *engine.Record, wasHidden bool,
	more []types.TransactWriteItem) error {
	record, err := r.EncodeRest()
	if err != nil {
		return err
	}
	expires, next := sp.expiry(&r.Task), r.Revision+1
	expression := "SET #record = :record, #write = :write, #expires = :expires"
	values := item{":record": text(string(record)), ":write": number(int64(next)), ":expires": expires,
		":me": text(sp.of.Keeper)}
	if wasHidden {
		if err := fits(r.Variables); err != nil {
			return err
		}
		hidden, err := sp.get(ctx, sp.recordKey(r.ID))
		if err != nil {
			return err
		}
		if before, ok := numberOf(hidden, "place"); ok && hidden["hidden"] != nil {
			more = append(more, sp.remove(sp.placeKey(uint64(before))))
		}
		place := sp.placeNow()
		expression += ", #place = :place"
		values[":place"] = number(int64(place))
		if len(r.Variables) > 0 {
			expression += ", #variables = :variables"
			values[":variables"] = text(string(r.Variables))
		}
		expression += " REMOVE #hidden"
		more = append(more, sp.put(with(sp.placeKey(place), item{"id": text(r.ID), "expires": expires})),
			sp.remove(sp.key("live", mark(r.ID, true))), sp.marking(r, false))
	}
	change := sp.update(sp.recordKey(r.ID), expression, "#keeper = :me AND #write < :write", values)
	if err := settled(sp.write(ctx, slices.Insert(more, 0, change)...), sp.keeps); err != nil {
		return err
	}
	r.Revision = next
	return nil
}

// End implements engine.Driver. The outcome is stored first, in pieces that are read only once the record
// names them. A task of another process is ended only if that process's lease has not changed.
func (sp *space) End(ctx context.Context, r *engine.Record, outcome []byte) error {
	s, expires := &r.Stored, sp.expiry(&r.Task)
	s.Attempt, s.Outcome = uuid.NewString(), len(outcome)
	record, err := r.EncodeRest()
	if err != nil {
		return err
	}
	n := 0
	for piece := range slices.Chunk(outcome, pieceBytes) {
		if err := sp.write(ctx, sp.put(with(sp.key(ofTask(r.ID), resultPlace(s.Attempt, n)),
			item{"data": data(piece), "expires": expires}))); err != nil {
			return err
		}
		n++
	}
	changes := []types.TransactWriteItem{
		sp.update(sp.recordKey(r.ID), "SET #record = :record, #by = :me, #end = :end, #expires = :expires "+
			"REMOVE #keeper", "#keeper = :keeper",
			item{":record": text(string(record)), ":me": text(sp.of.Keeper), ":end": number(s.End),
				":expires": expires, ":keeper": text(s.Keeper)}),
		sp.remove(sp.key("live", mark(r.ID, false))),
	}
	if s.Keeper != sp.of.Keeper {
		changes = append(changes, sp.unrenewed(s.Keeper))
	}
	return settled(sp.write(ctx, changes...),
		func(there item) bool { return there["keeper"] == nil && textOf(there, "by") == sp.of.Keeper })
}

// Take implements engine.Driver.
func (sp *space) Take(ctx context.Context, r *engine.Record, before string) error {
	work := string(r.Stored.Work)
	taken := sp.update(sp.recordKey(r.ID), "SET #keeper = :me, #work = :work",
		"#keeper = :before",
		item{":me": text(sp.of.Keeper), ":work": text(work), ":before": text(before)})
	return settled(sp.write(ctx, taken, sp.marking(r, false)),
		func(there item) bool { return sp.keeps(there) && textOf(there, "work") == work })
}

// SetVariables implements engine.Driver.
func (sp *space) SetVariables(ctx context.Context, r *engine.Record, merged []byte) error {
	if err := fits(merged); err != nil {
		return err
	}
	condition, values := "attribute_not_exists(#variables)", item{":merged": text(string(merged))}
	if len(r.Variables) > 0 {
		condition = "#variables = :seen"
		values[":seen"] = text(string(r.Variables))
	}
	err := sp.write(ctx, sp.update(sp.recordKey(r.ID), "SET #variables = :merged",
		"attribute_exists(#keeper) AND "+condition, values))
	if there, is := found(err); is {
		if err = tasks.ErrFenced; there["keeper"] == nil {
			err = tasks.ErrEnded
		}
	}
	return err
}

// MarkFetched implements engine.Driver.
func (sp *space) MarkFetched(ctx context.Context, r *engine.Record) error {
	err := sp.write(ctx, sp.update(sp.recordKey(r.ID), "SET #fetched = :yes", "attribute_exists(#pk)",
		item{":yes": text("1")}))
	if isCondition(err) { // it is gone
		return nil
	}
	return err
}

// Delete implements engine.Driver. It deletes the record first, and then the items that only the record leads
// to.
func (sp *space) Delete(ctx context.Context, id string) error {
	i, err := sp.get(ctx, sp.recordKey(id))
	if err != nil {
		return err
	}
	changes := []types.TransactWriteItem{sp.remove(sp.recordKey(id)),
		sp.remove(sp.key("live", mark(id, false))), sp.remove(sp.key("live", mark(id, true)))}
	if place, ok := numberOf(i, "place"); ok {
		changes = append(changes, sp.remove(sp.placeKey(uint64(place))))
	}
	if err := sp.write(ctx, changes...); err != nil {
		return err
	}
	rest, err := sp.query(ctx, span{partition: ofTask(id), keys: true})
	return errors.Join(err, sp.removeAll(ctx, rest))
}
