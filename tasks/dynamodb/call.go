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
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"runnel/internal/pause"
	"runnel/tasks"
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
