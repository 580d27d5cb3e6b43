package dynamodb

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

const (
	// writeTimeout is how long a write waits until it is taken, before it is refused with tasks.ErrBusy.
	writeTimeout = 10 * time.Second
	readTimeout  = 5 * time.Second
	// A request that was throttled, was in another one's way or has had no answer is tried again, first after tryAgain and at last each tryMost.
	tryAgain = 10 * time.Millisecond
	tryMost  = 500 * time.Millisecond
)

// try asks until there is an answer, and words what is refused. A condition that does not hold is for the caller (isCondition, found).
func (sp *space) try(ctx context.Context, ask func() error) error {
	for wait := tryAgain; ; wait = min(2*wait, tryMost) {
		err := ask()
		switch {
		case err == nil || isCondition(err):
			return err
		case !passes(err):
			return sp.refused(err)
		}
		select {
		case <-time.After(wait/2 + rand.N(wait)): // those who are in each other's way come apart
		case <-ctx.Done():
			return sp.unreachable(err)
		}
	}
}

// write is try for what changes the table.
func (sp *space) write(ctx context.Context, ask func(context.Context) error) error {
	if err := sp.usable(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return sp.try(ctx, func() error { return ask(ctx) })
}

// passes reports whether the same may succeed when it is tried again.
func passes(err error) bool {
	if reasons, ok := errors.AsType[*types.TransactionCanceledException](err); ok {
		return slices.ContainsFunc(reasons.CancellationReasons, func(r types.CancellationReason) bool {
			return slices.Contains([]string{"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"}, aws.ToString(r.Code))
		})
	}
	if refusal, ok := errors.AsType[smithy.APIError](err); ok {
		switch refusal.ErrorCode() {
		case "TransactionConflictException", "TransactionInProgressException", "ThrottlingException", "ProvisionedThroughputExceededException",
			"RequestLimitExceeded", "InternalServerError", "ServiceUnavailable":
			return true
		}
		answer, ok := errors.AsType[*awshttp.ResponseError](err)
		return ok && answer.HTTPStatusCode() >= http.StatusInternalServerError
	}
	return true // nobody has answered
}

// isCondition reports whether nothing was written since a condition did not hold.
func isCondition(err error) bool {
	_, is := found(err)
	return is
}

// found returns what stands in the table in the place of what a condition wanted, nil if nothing does. In a transaction that is the
// place of the first condition that did not hold.
func found(err error) (item, bool) {
	if failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		return failed.Item, true
	}
	if reasons, ok := errors.AsType[*types.TransactionCanceledException](err); ok {
		for _, r := range reasons.CancellationReasons {
			if aws.ToString(r.Code) == "ConditionalCheckFailed" {
				return r.Item, true
			}
		}
	}
	return nil, false
}

// get reads an item, nil if it is not there.
func (sp *space) get(ctx context.Context, key item) (i item, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	err = sp.try(ctx, func() error {
		answer, err := sp.server.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &sp.server.o.Table, Key: key, ConsistentRead: aws.Bool(true)})
		if err == nil {
			i = answer.Item
		}
		return err
	})
	return i, err
}

// mostKeys are read by one request.
const mostKeys = 100

// getAll reads some items: those that are there, in any order.
func (sp *space) getAll(ctx context.Context, keys []item) (all []item, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	for some := range slices.Chunk(keys, mostKeys) {
		ask := types.KeysAndAttributes{Keys: some, ConsistentRead: aws.Bool(true)}
		for wait := tryAgain; len(ask.Keys) > 0; wait = min(2*wait, tryMost) {
			err := sp.try(ctx, func() error {
				answer, err := sp.server.client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{sp.server.o.Table: ask}})
				if err == nil {
					all, ask = append(all, answer.Responses[sp.server.o.Table]...), answer.UnprocessedKeys[sp.server.o.Table]
				}
				return err
			})
			if err != nil {
				return nil, err
			}
			if len(ask.Keys) == 0 {
				break
			}
			select { // the rest was throttled, or is more than an answer holds
			case <-time.After(wait):
			case <-ctx.Done():
				return nil, sp.unreachable(ctx.Err())
			}
		}
	}
	return all, nil
}

// span is a part of a partition.
type span struct {
	partition string
	from, to  string // places, both included; "" = from the first, to the last
	filter    string // an expression, "" = all
	values    item   // of filter
	limit     int    // so many are looked at by one request, 0 = as many as an answer holds
	keys      bool   // only their keys are wanted
	count     bool   // only how many there are
}

// page reads a part of a span: next is where the rest begins, nil if there is none.
func (sp *space) page(ctx context.Context, s span, start item) (list []item, n int, next item, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if s.to == "" {
		s.to = "~" // after all that runnel writes
	}
	q := &dynamodb.QueryInput{
		TableName: &sp.server.o.Table, ConsistentRead: aws.Bool(true), ExclusiveStartKey: start,
		KeyConditionExpression:    aws.String("#pk = :pk AND #sk BETWEEN :from AND :to"),
		ExpressionAttributeValues: item{":pk": text(sp.root + s.partition), ":from": text(s.from), ":to": text(s.to)},
	}
	if s.from == "" {
		q.ExpressionAttributeValues[":from"] = text(" ") // before all that runnel writes; a key is not empty
	}
	if s.filter != "" {
		q.FilterExpression = &s.filter
		with(q.ExpressionAttributeValues, s.values)
	}
	if s.limit > 0 {
		q.Limit = aws.Int32(int32(s.limit))
	}
	if s.keys {
		q.ProjectionExpression = aws.String("#pk, #sk")
	}
	if s.count {
		q.Select = types.SelectCount
	}
	q.ExpressionAttributeNames = names(q.KeyConditionExpression, q.FilterExpression, q.ProjectionExpression)
	err = sp.try(ctx, func() error {
		answer, err := sp.server.client.Query(ctx, q)
		if err == nil {
			list, n, next = answer.Items, int(answer.Count), answer.LastEvaluatedKey
		}
		return err
	})
	return list, n, next, err
}

// query reads a whole span.
func (sp *space) query(ctx context.Context, s span) (list []item, err error) {
	for next := item(nil); ; {
		var some []item
		if some, _, next, err = sp.page(ctx, s, next); err != nil {
			return nil, err
		}
		if list = append(list, some...); next == nil {
			return list, nil
		}
	}
}

// count counts a span up to most.
func (sp *space) count(ctx context.Context, s span, most int) (all int, err error) {
	s.count = true
	for next := item(nil); ; {
		var n int
		if _, n, next, err = sp.page(ctx, s, next); err != nil {
			return 0, err
		}
		if all += n; next == nil || all >= most {
			return all, nil
		}
	}
}

// put writes an item if a condition holds ("" = in any case).
func (sp *space) put(ctx context.Context, i item, condition string) error {
	p := &dynamodb.PutItemInput{TableName: &sp.server.o.Table, Item: i}
	if condition != "" {
		p.ConditionExpression, p.ExpressionAttributeNames = &condition, names(&condition)
	}
	return sp.write(ctx, func(ctx context.Context) error {
		_, err := sp.server.client.PutItem(ctx, p)
		return err
	})
}

// update changes an item.
func (sp *space) update(ctx context.Context, u *types.Update) error {
	return sp.write(ctx, func(ctx context.Context) error {
		_, err := sp.server.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: u.TableName, Key: u.Key, UpdateExpression: u.UpdateExpression, ConditionExpression: u.ConditionExpression,
			ExpressionAttributeNames: u.ExpressionAttributeNames, ExpressionAttributeValues: u.ExpressionAttributeValues,
			ReturnValuesOnConditionCheckFailure: u.ReturnValuesOnConditionCheckFailure,
		})
		return err
	})
}

// remove deletes an item if a condition holds ("" = in any case).
func (sp *space) remove(ctx context.Context, key item, condition string, values item) error {
	d := &dynamodb.DeleteItemInput{TableName: &sp.server.o.Table, Key: key}
	if condition != "" {
		d.ConditionExpression, d.ExpressionAttributeNames, d.ExpressionAttributeValues = &condition, names(&condition), values
	}
	return sp.write(ctx, func(ctx context.Context) error {
		_, err := sp.server.client.DeleteItem(ctx, d)
		return err
	})
}

// mostDeleted are deleted by one request.
const mostDeleted = 25

// removeAll deletes some items.
func (sp *space) removeAll(ctx context.Context, keys []item) error {
	for some := range slices.Chunk(keys, mostDeleted) {
		var deletes []types.WriteRequest
		for _, key := range some {
			deletes = append(deletes, types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: key}})
		}
		err := sp.write(ctx, func(ctx context.Context) error {
			answer, err := sp.server.client.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{sp.server.o.Table: deletes}})
			if err == nil && len(answer.UnprocessedItems) > 0 {
				deletes = answer.UnprocessedItems[sp.server.o.Table]
				err = errThrottled
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// errThrottled stands for the part of a batch that was not taken.
var errThrottled = &types.ThrottlingException{Message: aws.String("a part of it was not taken")}

// transact makes some changes, all or none.
func (sp *space) transact(ctx context.Context, changes ...types.TransactWriteItem) error {
	return sp.write(ctx, func(ctx context.Context) error {
		_, err := sp.server.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: changes})
		return err
	})
}

// change is an update of an item, if a condition holds; else found returns what stands there.
func (sp *space) change(key item, expression, condition string, values item) *types.Update {
	return &types.Update{
		TableName: &sp.server.o.Table, Key: key, UpdateExpression: &expression, ConditionExpression: &condition,
		ExpressionAttributeNames: names(&expression, &condition), ExpressionAttributeValues: values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
}

func (sp *space) putting(i item) types.TransactWriteItem {
	return types.TransactWriteItem{Put: &types.Put{TableName: &sp.server.o.Table, Item: i}}
}

func (sp *space) deleting(key item) types.TransactWriteItem {
	return types.TransactWriteItem{Delete: &types.Delete{TableName: &sp.server.o.Table, Key: key}}
}

func updating(u *types.Update) types.TransactWriteItem { return types.TransactWriteItem{Update: u} }
