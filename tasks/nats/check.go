package nats

import (
	"context"
	"fmt"
)

// Check finds out whether the servers answer, and describes an owner's tasks there for people.
func (s *State) Check(ctx context.Context, owner string) (string, error) {
	sp, err := s.space(ctx, owner)
	if err != nil {
		return "", err
	}
	stored, err := s.Stored(ctx, owner)
	if err != nil {
		return "", err
	}
	live, err := sp.subjects(ctx, sp.name, sp.marks("*", "*", false))
	if err != nil {
		return "", err
	}
	alive, err := sp.subjects(ctx, sp.leaseName, sp.lease("*"))
	if err != nil {
		return "", err
	}
	replicas := fmt.Sprint(stored.Replicas)
	if stored.Current < stored.Replicas {
		replicas = fmt.Sprintf("%d of %d (a server is away, or catches up)", stored.Current, stored.Replicas)
	}
	return fmt.Sprintf("tasks not ended: %d, runnels: %d, %.1f MiB, replicas: %s", len(live), len(alive),
		float64(stored.Bytes)/(1<<20), replicas), nil
}
