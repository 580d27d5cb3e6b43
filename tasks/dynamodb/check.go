package dynamodb

import (
	"context"
	"fmt"
	"time"
)

const (
	// mostCounted is how many tasks Check counts at most, since each costs money.
	mostCounted = 10_000
	// lately is the age up to which Check takes a lease for that of a living runnel. It is generous, since
	// clocks differ.
	lately = time.Minute
)

// Check implements engine.Driver.
func (sp *space) Check(ctx context.Context) (string, error) {
	live, err := sp.count(ctx, span{partition: "live", from: mark("", false), to: mark("~", false)},
		mostCounted)
	if err != nil {
		return "", err
	}
	all, err := sp.count(ctx, span{partition: "tasks"}, mostCounted)
	if err != nil {
		return "", err
	}
	alive, err := sp.count(ctx, span{partition: "alive", filter: "#renewed > :then",
		values: item{":then": number(sp.of.Now().Add(-lately).Unix())}}, mostCounted)
	if err != nil {
		return "", err
	}
	more := ""
	if all >= mostCounted {
		more = " or more"
	}
	report := fmt.Sprintf("tasks: %d%s, not ended: %d, runnels: %d", all, more, live, alive)
	// An error means that the credentials do not allow the question.
	if on, err := sp.expiresItems(ctx); err == nil && !on {
		report += "; nothing of them is ever deleted: turn the table's time to live on, for the attribute expires"
	}
	return report, nil
}
