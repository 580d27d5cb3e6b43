package nats

import (
	"context"
	"fmt"
)

// Check looks whether the servers answer, and says for people what an owner has there.
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
	live, err := sp.subjects(ctx, sp.name, sp.subject("*", "live.*"))
	if err != nil {
		return "", err
	}
	alive, err := sp.subjects(ctx, sp.leaseName, sp.lease("*"))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d tasks have not ended, %d runnels use it, %.1f MiB in %d replicas", len(live), len(alive), float64(info.State.Bytes)/(1<<20), info.Config.Replicas), nil
}
