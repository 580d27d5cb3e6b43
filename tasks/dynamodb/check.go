package dynamodb

import (
	"context"
	"fmt"
	"time"
)

const (
	// mostCounted is where Check ends counting: each task that it counts is paid for.
	mostCounted = 10_000
	// lately is how old a lease may be that Check takes for one of a runnel that lives, by whatever clocks.
	lately = time.Minute
)

// Check looks whether the table answers, and says for people what an owner has there.
func (s *State) Check(ctx context.Context, owner string) (string, error) {
	of, err := s.Space(ctx, owner)
	if err != nil {
		return "", err
	}
	sp := of.Store.(*space)
	live, err := sp.count(ctx, span{partition: "live", from: mark("", false), to: mark("~", false)}, mostCounted)
	if err != nil {
		return "", err
	}
	all, err := sp.count(ctx, span{partition: "tasks"}, mostCounted)
	if err != nil {
		return "", err
	}
	alive, err := sp.count(ctx, span{partition: "alive", filter: "#renewed > :then", values: item{":then": number(sp.of.Now().Add(-lately).Unix())}}, mostCounted)
	if err != nil {
		return "", err
	}
	more := ""
	if all >= mostCounted {
		more = " or more"
	}
	report := fmt.Sprintf("%d tasks%s, %d of them not ended, %d runnels use it", all, more, live, alive)
	if on, err := sp.expiresItems(ctx); err == nil && !on { // else these credentials may not ask
		report += "; nothing of them is ever deleted: turn the table's time to live on, for the attribute expires"
	}
	return report, nil
}
