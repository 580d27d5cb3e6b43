package dynamodb

import (
	"fmt"
	"regexp"
	"strconv"
	"sync"

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
