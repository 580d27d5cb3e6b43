package dynamodb

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// item is an item of the table, or only its key.
type item = map[string]types.AttributeValue

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func data(b []byte) types.AttributeValue { return &types.AttributeValueMemberB{Value: b} }

// textOf returns a text attribute; "" if it is missing or has another type.
func textOf(i item, name string) string {
	if s, ok := i[name].(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

// numberOf returns an attribute that is a whole number, 0 or more.
func numberOf(i item, name string) (int64, bool) {
	s, ok := i[name].(*types.AttributeValueMemberN)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(s.Value, 10, 64)
	return n, err == nil && n >= 0
}

func dataOf(i item, name string) []byte {
	if b, ok := i[name].(*types.AttributeValueMemberB); ok {
		return b.Value
	}
	return nil
}

// with adds attributes to a key.
func with(key item, more item) item {
	for name, value := range more {
		key[name] = value
	}
	return key
}

// ofTask returns the partition of a task.
func ofTask(id string) string { return "task:" + id }

// These are the places in a task's partition. Numbers have leading zeros, so that they sort as text.
const recordPlace = "record"

func outputPlace(end int64, piece int) string { return fmt.Sprintf("output:%020d.%03d", end, piece) }

func endsPlace(last, piece int) string { return fmt.Sprintf("ends:%020d.%03d", last, piece) }

func resultPlace(try string, piece int) string { return fmt.Sprintf("result:%s.%05d", try, piece) }

var attribute = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`#\w+`)
})

// names maps #NAME in expressions to attributes, because many names are reserved words of DynamoDB.
func names(expressions ...*string) map[string]string {
	var all map[string]string
	for _, e := range expressions {
		if e == nil {
			continue
		}
		for _, name := range attribute().FindAllString(*e, -1) {
			if all == nil {
				all = map[string]string{}
			}
			all[name] = name[1:]
		}
	}
	return all
}

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
