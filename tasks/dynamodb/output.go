package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/engine"
)

// transactionBytes is how much output goes into one transaction, plus at most an extent. DynamoDB allows 4 MB
// and 100 changes.
const transactionBytes = 1 << 20

// mostPieces is how many pieces the longest extent has: no chunk is longer than a line of MCP.
const mostPieces = (mcp.MaxLine + pieceBytes - 1) / pieceBytes

// Append implements engine.Driver. Output that is cut out is deleted after the rest was stored.
func (sp *space) Append(ctx context.Context, r *engine.Record, b *engine.Batch) error {
	expires := sp.expiry(&r.Task)
	from := b.From
	bytes := 0
	var items []types.TransactWriteItem
	add := func(place string, attributes item) {
		attributes["expires"] = expires
		items = append(items, sp.put(with(sp.key(ofTask(r.ID), place), attributes)))
	}
	send := func(to int64) error {
		err := sp.append(ctx, r, from, to, b.To, items)
		from = to
		bytes = 0
		items = nil
		return err
	}
	for _, e := range b.Extents {
		if bytes > transactionBytes {
			if err := send(e.Start); err != nil {
				return err
			}
		}
		n := 0
		for piece := range slices.Chunk(e.Data, pieceBytes) {
			attributes := item{"data": data(piece)}
			if n == 0 {
				attributes["marks"], attributes["length"] = data(e.Marks), number(int64(len(e.Data)))
			}
			add(outputPlace(e.End(), n), attributes)
			n++
		}
		bytes += len(e.Data) + len(e.Marks)
	}
	n := 0
	for piece := range slices.Chunk(b.Numbers, pieceBytes) {
		add(endsPlace(b.Last, n), item{"first": number(int64(b.First)), "ends": data(piece)})
		n++
	}
	if err := send(b.To); err != nil {
		return err
	}
	return sp.removeAll(ctx, sp.cut(r.ID, b.Cut))
}

// append stores items together with their end position, if this process is still the keeper. last is the end
// of the batch.
func (sp *space) append(ctx context.Context, r *engine.Record, from, to, last int64,
	items []types.TransactWriteItem) error {
	moves := sp.update(sp.recordKey(r.ID), "SET #end = :to", "#keeper = :me AND #end = :from",
		item{":from": number(from), ":to": number(to), ":me": text(sp.of.Keeper)})
	err := sp.write(ctx, slices.Insert(items, 0, moves)...)
	there, is := found(err)
	if !is {
		return err
	}
	switch end, _ := numberOf(there, "end"); {
	case !sp.keeps(there):
		return tasks.ErrFenced
	case to > from && end >= to && end <= last: // an earlier try has done it
		return nil
	default:
		return tasks.Trouble{Err: fmt.Errorf("the state has lost output that it had stored: the table %s "+
			"was restored from a backup", sp.server.o.Table)}
	}
}

// cut returns the keys of extents, by where they end.
func (sp *space) cut(id string, ends []int64) (keys []item) {
	for n, end := range ends {
		pieces := mostPieces // the beginning of the first one is unknown
		if n > 0 {
			pieces = int((end - ends[n-1] + pieceBytes - 1) / pieceBytes)
		}
		for piece := range pieces {
			keys = append(keys, sp.key(ofTask(id), outputPlace(end, piece)))
		}
	}
	return keys
}

// output is the stored output of a task.
type output struct {
	sp *space
	id string
}

// Output implements engine.Driver.
func (sp *space) Output(id string, _ func() int64) engine.Output { return output{sp, id} }

// mostLoaded is how many items one request reads: many, since they may be short.
const mostLoaded = 128

// Load implements engine.Output.
func (o output) Load(ctx context.Context, pos int64, limit int) ([]partials.Extent, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	all := o.sp.of.Extents(o.id, pos)
	var whole joiner
	// One long extent may be enough.
	part := span{partition: ofTask(o.id), from: outputPlace(pos+1, 0), to: "output:~", limit: 1}
	for next, bytes := item(nil), 0; ; part.limit = min(2*part.limit, mostLoaded) {
		items, _, rest, err := o.sp.page(ctx, part, next)
		if err != nil {
			return nil, err
		}
		for _, i := range items {
			e, ok, err := whole.add(i)
			if err == nil && !ok { // there are more pieces
				continue
			}
			if all.Add(e, err) {
				bytes += len(e.Data)
			} else if len(all.List) > 0 { // a gap: the rest is read by itself
				return all.List, nil
			}
		}
		if next = rest; next == nil || bytes >= limit {
			return all.List, nil
		}
	}
}

// joiner joins pieces to extents.
type joiner struct {
	e      partials.Extent
	end    int64
	next   int // the expected piece; 0 = a new extent
	length int64
}

var errPiece = errors.New("a piece of it is missing, or is not one of runnel's")

// add takes the next item, and returns an extent when it has all its pieces.
func (j *joiner) add(i item) (e partials.Extent, whole bool, err error) {
	end, piece, err := pieceAt(i, "output:")
	if err != nil || piece > 0 && (piece != j.next || end != j.end) {
		j.next = 0
		return e, false, errPiece
	}
	if piece == 0 {
		*j = joiner{e: partials.Extent{Marks: dataOf(i, "marks")}, end: end}
		var ok bool
		if j.length, ok = numberOf(i, "length"); !ok || j.length > end {
			return e, false, errPiece
		}
		j.e.Start = end - j.length
	}
	j.e.Data = append(j.e.Data, dataOf(i, "data")...)
	if j.next = piece + 1; int64(len(j.e.Data)) < j.length {
		return e, false, nil
	}
	e, j.next = j.e, 0
	if int64(len(e.Data)) != j.length {
		return e, false, errPiece
	}
	return e, true, nil
}

// pieceAt returns the number and the piece in a place.
func pieceAt(i item, kind string) (number int64, piece int, err error) {
	whole, nth, _ := strings.Cut(strings.TrimPrefix(textOf(i, "sk"), kind), ".")
	if number, err = strconv.ParseInt(whole, 10, 64); err == nil {
		piece, err = strconv.Atoi(nth)
	}
	if err == nil && (number < 0 || piece < 0) {
		err = errPiece
	}
	return number, piece, err
}

// Ends implements engine.Driver.
func (sp *space) Ends(ctx context.Context, r *engine.Record, n int, last int64) ([]int64, error) {
	if r.Damage != nil {
		return nil, nil
	}
	items, err := sp.query(ctx, span{partition: ofTask(r.ID), from: endsPlace(n+1, 0), to: "ends:~"})
	if err != nil {
		return nil, err
	}
	numbers := r.Numbers(n, last)
	for more := true; more && len(items) > 0; {
		to, _, err := pieceAt(items[0], "ends:")
		first, ok := numberOf(items[0], "first")
		if err != nil || !ok {
			return nil, partials.ErrEnds
		}
		var encoded []byte
		for piece := 0; len(items) > 0 && textOf(items[0], "sk") == endsPlace(int(to), piece); piece++ {
			encoded, items = append(encoded, dataOf(items[0], "ends")...), items[1:]
		}
		if more, err = numbers.Add(first, encoded); err != nil {
			return nil, err
		}
	}
	return numbers.Ends()
}
