package dynamodb

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// item is what stands in the table under a key, or a key alone.
type item = map[string]types.AttributeValue

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func data(b []byte) types.AttributeValue { return &types.AttributeValueMemberB{Value: b} }

// textOf is an attribute that is text, "" if it is not there or of another type.
func textOf(i item, name string) string {
	if s, ok := i[name].(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

// numberOf is an attribute that is a whole number of 0 or more.
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

// key is a place in the table: a partition of the owner, and the place there.
func (sp *space) key(partition, sort string) item {
	return item{"pk": text(sp.root + partition), "sk": text(sort)}
}

// with adds attributes to a key.
func with(key item, more item) item {
	for name, value := range more {
		key[name] = value
	}
	return key
}

// ofTask is the partition of a task.
func ofTask(id string) string { return "task:" + id }

// The places in a task's partition. Numbers have leading zeros, so that their order is that of text.
const recordPlace = "record"

func outputPlace(end int64, piece int) string { return fmt.Sprintf("output:%020d.%03d", end, piece) }

func endsPlace(last, piece int) string { return fmt.Sprintf("ends:%020d.%03d", last, piece) }

func resultPlace(try string, piece int) string { return fmt.Sprintf("result:%s.%05d", try, piece) }

var attribute = regexp.MustCompile(`#\w+`)

// names are the attributes of expressions, which stand there as #NAME: many names are words of DynamoDB's own.
func names(expressions ...*string) map[string]string {
	var all map[string]string
	for _, e := range expressions {
		if e == nil {
			continue
		}
		for _, name := range attribute.FindAllString(*e, -1) {
			if all == nil {
				all = map[string]string{}
			}
			all[name] = name[1:]
		}
	}
	return all
}
