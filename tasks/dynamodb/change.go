package dynamodb

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

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
