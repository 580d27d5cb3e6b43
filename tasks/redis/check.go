package redis

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/rueidis"
)

// Check implements engine.Driver.
func (sp *space) Check(ctx context.Context) (string, error) {
	live, err := sp.read(ctx, func(b rueidis.Builder) rueidis.Completed {
		return b.Hlen().
			Key(sp.root + "live").Build()
	})
	if err != nil {
		return "", err
	}
	all, err := sp.read(ctx, func(b rueidis.Builder) rueidis.Completed {
		return b.Zcard().
			Key(sp.root + "tasks").Build()
	})
	if err != nil {
		return "", err
	}
	alive, err := sp.Alive(ctx)
	if err != nil {
		return "", err
	}
	working, _ := live.AsInt64()
	stored, _ := all.AsInt64()
	report := fmt.Sprintf("tasks: %d, not ended: %d, runnels: %d", stored, working, len(alive))
	return report + sp.risks(ctx), nil
}

// risks says how the server may lose what it has stored, if this user is allowed to ask.
func (sp *space) risks(ctx context.Context) (said string) {
	answer, err := sp.read(ctx, func(b rueidis.Builder) rueidis.Completed { return b.Info().Build() })
	if err != nil {
		return ""
	}
	info, _ := answer.ToString()
	if strings.Contains(info, "aof_enabled:0") {
		said += "; a crash of the server loses what it has not saved (set appendonly yes)"
	}
	if strings.Contains(info, "maxmemory_policy:") && !strings.Contains(info, "maxmemory_policy:noeviction") {
		said += "; when its memory is full it drops tasks (set maxmemory-policy noeviction)"
	}
	return said
}
