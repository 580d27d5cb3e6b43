package nats

import (
	"context"
	"fmt"
)

// Check implements engine.Driver.
func (sp *space) Check(ctx context.Context) (string, error) {
	stored, err := sp.stored(ctx)
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
