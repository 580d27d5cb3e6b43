package dynamodb

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// get reads an item; nil if it does not exist.
func (sp *space) get(ctx context.Context, key item) (i item, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	err = sp.try(ctx, func() error {
		answer, err := sp.server.client.GetItem(ctx,
			&dynamodb.GetItemInput{TableName: &sp.server.o.Table, Key: key, ConsistentRead: aws.Bool(true)})
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
			answer, err := sp.server.client.BatchGetItem(ctx,
				&dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{sp.server.o.Table: ask}})
			if err != nil {
				return err
			}
			all, ask = append(all, answer.Responses[sp.server.o.Table]...),
				answer.UnprocessedKeys[sp.server.o.Table]
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
	backwards bool   // the last item comes first
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
		KeyConditionExpression: aws.String("#pk = :pk AND #sk BETWEEN :from AND :to"),
		ExpressionAttributeValues: item{":pk": text(sp.root + s.partition), ":from": text(s.from),
			":to": text(s.to)},
	}
	if s.from == "" {
		// Before every key that runnel writes; a key cannot be empty.
		q.ExpressionAttributeValues[":from"] = text(" ")
	}
	if s.filter != "" {
		q.FilterExpression = &s.filter
		with(q.ExpressionAttributeValues, s.values)
	}
	if s.limit > 0 {
		q.Limit = aws.Int32(int32(s.limit))
	}
	if s.backwards {
		q.ScanIndexForward = aws.Bool(false)
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
			list = answer.Items
			n = int(answer.Count)
			next = answer.LastEvaluatedKey
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
