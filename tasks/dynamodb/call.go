package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"runnel/internal/pause"
	"runnel/tasks"
	"runnel/tasks/engine"
)

const (
	readTimeout = 5 * time.Second
	// A request that was throttled, collided with another or got no answer is tried again, first after
	// tryAgain and in the end every tryMost.
	tryAgain = 10 * time.Millisecond
	tryMost  = 500 * time.Millisecond
)

// try sends a request until it is answered, and words refusals for people. A condition that does not hold is
// left to the caller (isCondition, found).
func (sp *space) try(ctx context.Context, ask func() error) error {
	for wait := tryAgain; ; wait = min(2*wait, tryMost) {
		err := ask()
		switch {
		case err == nil || isCondition(err):
			return err
		case !passes(err):
			return sp.refused(err)
		}
		if !pause.For(ctx, wait/2+rand.N(wait)) { // so that colliding requests come apart
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
			return slices.Contains([]string{"TransactionConflict", "ThrottlingError",
				"ProvisionedThroughputExceeded"}, aws.ToString(r.Code))
		})
	}
	if refusal, ok := errors.AsType[smithy.APIError](err); ok {
		switch refusal.ErrorCode() {
		case "TransactionConflictException", "TransactionInProgressException", "ThrottlingException",
			"ProvisionedThroughputExceededException",
			"RequestLimitExceeded", "InternalServerError", "ServiceUnavailable":
			return true
		}
		answer, ok := errors.AsType[*awshttp.ResponseError](err)
		return ok && answer.HTTPStatusCode() >= http.StatusInternalServerError
	}
	return true // there was no answer
}

// errThrottled stands for the part of a request that was not served: it was throttled, or is more than an
// answer holds.
var errThrottled = &types.ThrottlingException{Message: aws.String("a part of the request was not served")}

// isCondition reports whether nothing was written because a condition did not hold.
func isCondition(err error) bool {
	_, is := found(err)
	return is
}

// found returns the item that failed a condition, nil if it does not exist. In a transaction it is the item
// of the first condition that did not hold.
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

// settled turns the refusal of a condition into tasks.ErrFenced, unless an earlier try of the same write has
// succeeded: then there is the item as that try has left it.
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
			answer, err := sp.server.client.BatchWriteItem(ctx,
				&dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{sp.server.o.Table: deletes}})
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
				ExpressionAttributeNames:  c.Put.ExpressionAttributeNames,
				ExpressionAttributeValues: c.Put.ExpressionAttributeValues,
			})
		case c.Delete != nil:
			_, err = client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
				TableName: c.Delete.TableName, Key: c.Delete.Key,
				ConditionExpression:       c.Delete.ConditionExpression,
				ExpressionAttributeNames:  c.Delete.ExpressionAttributeNames,
				ExpressionAttributeValues: c.Delete.ExpressionAttributeValues,
			})
		default:
			u := c.Update
			_, err = client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
				TableName: u.TableName, Key: u.Key, UpdateExpression: u.UpdateExpression,
				ConditionExpression:                 u.ConditionExpression,
				ExpressionAttributeNames:            u.ExpressionAttributeNames,
				ExpressionAttributeValues:           u.ExpressionAttributeValues,
				ReturnValuesOnConditionCheckFailure: u.ReturnValuesOnConditionCheckFailure,
			})
		}
		return err
	})
}

// The changes of write. If the condition of an update or of putNew does not hold, found returns the item that
// is there.

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
		TableName: &sp.server.o.Table, Key: key, UpdateExpression: &expression,
		ConditionExpression:      &condition,
		ExpressionAttributeNames: names(&expression, &condition), ExpressionAttributeValues: values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}}
}

// These errors tell people why something cannot be stored or read.

// refused turns a refusal into an error that says what the user can do.
func (sp *space) refused(err error) error {
	table := sp.server.o.Table
	refusal, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return err
	}
	code := refusal.ErrorCode()
	said := fmt.Errorf("%s: %s", code, refusal.ErrorMessage()) // err names hosts and requests, too
	switch {
	case code == "ResourceNotFoundException":
		return tasks.Trouble{Err: fmt.Errorf("%w: there is no table %s here; create it as \"runnel help "+
			"states\" says, or name another region or endpoint: %w", tasks.ErrRemoved, table, said)}
	case strings.HasPrefix(code, "AccessDenied"):
		return tasks.Trouble{Err: fmt.Errorf("the table %s refuses it to these credentials: \"runnel help "+
			"states\" says what their policy must allow: %w", table, said)}
	case strings.Contains(code, "Token") || code == "UnrecognizedClientException" ||
		strings.Contains(code, "Signature") || code == "InvalidClientTokenId":
		return tasks.Trouble{Err: fmt.Errorf("the table %s asks for other AWS credentials (AWS_PROFILE, "+
			"AWS_ACCESS_KEY_ID, a role): %w", table, said)}
	case code == "ItemCollectionSizeLimitExceededException":
		return tasks.Trouble{Err: fmt.Errorf("the table %s has a local index, which bounds what a task "+
			"may store: make one without: %w", table, said)}
	}
	return tasks.Trouble{Err: fmt.Errorf("the table %s refuses it: %w", table, said)}
}

// where names the place of the owner's items, for people.
func (sp *space) where() string { return sp.root + "* in the table " + sp.server.o.Table }

func (sp *space) unreachable(err error) error {
	return tasks.Trouble{Err: engine.Away{Err: fmt.Errorf("the table %s has not answered, or has no "+
		"throughput left: %w", sp.server.o.Table, err)}}
}
