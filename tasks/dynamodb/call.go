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

	"runnel/tasks"
	"runnel/tasks/engine"
)

const (
	readTimeout = 5 * time.Second
	// A request that was throttled, collided with another or got no answer is tried again, first after tryAgain and in the end every
	// tryMost.
	tryAgain = 10 * time.Millisecond
	tryMost  = 500 * time.Millisecond
)

// try sends a request until it is answered, and words refusals for people. A condition that does not hold is left to the caller
// (isCondition, found).
func (sp *space) try(ctx context.Context, ask func() error) error {
	for wait := tryAgain; ; wait = min(2*wait, tryMost) {
		err := ask()
		switch {
		case err == nil || isCondition(err):
			return err
		case !passes(err):
			return sp.refused(err)
		}
		if !engine.Pause(ctx, wait/2+rand.N(wait)) { // so that colliding requests come apart
			return sp.unreachable(err)
		}
	}
}

// tryWrite is try for requests that change the table.
func (sp *space) tryWrite(ctx context.Context, ask func(context.Context) error) error {
	if err := sp.usable(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return sp.try(ctx, func() error { return ask(ctx) })
}

// passes reports whether the request may succeed on another try.
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
	return true // there was no answer
}

// isCondition reports whether nothing was written because a condition did not hold.
func isCondition(err error) bool {
	_, is := found(err)
	return is
}

// found returns the item that failed a condition, nil if it does not exist. In a transaction it is the item of the first condition that did
// not hold.
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

// settled turns the refusal of a condition into tasks.ErrFenced, unless an earlier try of the same write has succeeded: then there is the item
// as that try has left it.
func settled(err error, isDone func(there item) bool) error {
	there, refused := found(err)
	switch {
	case !refused:
		return err
	case isDone(there):
		return nil
	}
	return tasks.ErrFenced
}

// get reads an item; nil if it does not exist.
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

// mostKeys is how many items one request reads.
const mostKeys = 100

// getAll reads some items, and returns those that exist in any order.
func (sp *space) getAll(ctx context.Context, keys []item) (all []item, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	for some := range slices.Chunk(keys, mostKeys) {
		ask := types.KeysAndAttributes{Keys: some, ConsistentRead: aws.Bool(true)}
		err := sp.try(ctx, func() error {
			answer, err := sp.server.client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{sp.server.o.Table: ask}})
			if err != nil {
				return err
			}
			all, ask = append(all, answer.Responses[sp.server.o.Table]...), answer.UnprocessedKeys[sp.server.o.Table]
			if len(ask.Keys) > 0 {
				return errThrottled
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// span is a part of a partition.
type span struct {
	partition string
	from, to  string // places, both included; "" = from the first, to the last
	filter    string // an expression, "" = all
	values    item   // the values in filter
	limit     int    // how many items one request examines; 0 = as many as an answer holds
	keys      bool   // only their keys are wanted
	count     bool   // only the number of items is wanted
}

// page reads a part of a span. next is where the rest begins; nil at the end.
func (sp *space) page(ctx context.Context, s span, start item) (list []item, n int, next item, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if s.to == "" {
		s.to = "~" // after every key that runnel writes
	}
	q := &dynamodb.QueryInput{
		TableName: &sp.server.o.Table, ConsistentRead: aws.Bool(true), ExclusiveStartKey: start,
		KeyConditionExpression:    aws.String("#pk = :pk AND #sk BETWEEN :from AND :to"),
		ExpressionAttributeValues: item{":pk": text(sp.root + s.partition), ":from": text(s.from), ":to": text(s.to)},
	}
	if s.from == "" {
		q.ExpressionAttributeValues[":from"] = text(" ") // before every key that runnel writes; a key cannot be empty
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

// count returns the number of items in a span, most at the most.
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

// mostDeleted is how many items one request deletes.
const mostDeleted = 25

// removeAll deletes some items.
func (sp *space) removeAll(ctx context.Context, keys []item) error {
	for some := range slices.Chunk(keys, mostDeleted) {
		var deletes []types.WriteRequest
		for _, key := range some {
			deletes = append(deletes, types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: key}})
		}
		err := sp.tryWrite(ctx, func(ctx context.Context) error {
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

// errThrottled stands for the part of a request that was not served: it was throttled, or is more than an answer holds.
var errThrottled = &types.ThrottlingException{Message: aws.String("a part of the request was not served")}

// write makes all of some changes, or none. A single change is not a transaction, which costs twice as much.
func (sp *space) write(ctx context.Context, changes ...types.TransactWriteItem) error {
	client := sp.server.client
	return sp.tryWrite(ctx, func(ctx context.Context) (err error) {
		switch c := changes[0]; {
		case len(changes) > 1:
			_, err = client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: changes})
		case c.Put != nil:
			_, err = client.PutItem(ctx, &dynamodb.PutItemInput{
				TableName: c.Put.TableName, Item: c.Put.Item, ConditionExpression: c.Put.ConditionExpression,
				ExpressionAttributeNames: c.Put.ExpressionAttributeNames, ExpressionAttributeValues: c.Put.ExpressionAttributeValues,
			})
		case c.Delete != nil:
			_, err = client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
				TableName: c.Delete.TableName, Key: c.Delete.Key, ConditionExpression: c.Delete.ConditionExpression,
				ExpressionAttributeNames: c.Delete.ExpressionAttributeNames, ExpressionAttributeValues: c.Delete.ExpressionAttributeValues,
			})
		default:
			u := c.Update
			_, err = client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
				TableName: u.TableName, Key: u.Key, UpdateExpression: u.UpdateExpression, ConditionExpression: u.ConditionExpression,
				ExpressionAttributeNames: u.ExpressionAttributeNames, ExpressionAttributeValues: u.ExpressionAttributeValues,
				ReturnValuesOnConditionCheckFailure: u.ReturnValuesOnConditionCheckFailure,
			})
		}
		return err
	})
}

// The changes of write. If the condition of an update or of putNew does not hold, found returns the item that is there.

func (sp *space) put(i item) types.TransactWriteItem {
	return types.TransactWriteItem{Put: &types.Put{TableName: &sp.server.o.Table, Item: i}}
}

// putNew puts an item that does not exist yet.
func (sp *space) putNew(i item) types.TransactWriteItem {
	condition, change := "attribute_not_exists(#pk)", sp.put(i)
	change.Put.ConditionExpression, change.Put.ExpressionAttributeNames = &condition, names(&condition)
	change.Put.ReturnValuesOnConditionCheckFailure = types.ReturnValuesOnConditionCheckFailureAllOld
	return change
}

func (sp *space) remove(key item) types.TransactWriteItem {
	return types.TransactWriteItem{Delete: &types.Delete{TableName: &sp.server.o.Table, Key: key}}
}

func (sp *space) update(key item, expression, condition string, values item) types.TransactWriteItem {
	return types.TransactWriteItem{Update: &types.Update{
		TableName: &sp.server.o.Table, Key: key, UpdateExpression: &expression, ConditionExpression: &condition,
		ExpressionAttributeNames: names(&expression, &condition), ExpressionAttributeValues: values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}}
}
