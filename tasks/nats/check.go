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
	stream, err := s.c.js.Stream(ctx, sp.name)
	if err != nil {
		return "", unreachable(err)
	}
	info := stream.CachedInfo()
	live, err := sp.subjects(ctx, sp.name, sp.marks("*", "*", false))
	if err != nil {
		return "", err
	}
	alive, err := sp.subjects(ctx, sp.leaseName, sp.lease("*"))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("tasks not ended: %d, runnels: %d, %.1f MiB, replicas: %d", len(live), len(alive), float64(info.State.Bytes)/(1<<20), info.Config.Replicas), nil
}
