package redis

import (
	"context"

	"github.com/redis/rueidis"

	"runnel/tasks/engine"
)

// Lease implements engine.Driver.
func (sp *space) Lease(ctx context.Context) error {
	_, err := sp.call(ctx, "lease", "", engine.LeaseTTL)
	return err
}

// Leave implements engine.Driver.
func (sp *space) Leave(ctx context.Context) {
	c := sp.server.client
	// If this fails, the lease runs out by itself.
	c.Do(ctx, c.B().Zrem().Key(sp.root+"alive").Member(sp.Keeper).Build())
}

// Alive implements engine.Driver.
func (sp *space) Alive(ctx context.Context) ([]string, error) {
	answer, err := sp.read(ctx, func(b rueidis.Builder) rueidis.Completed { return b.Time().Build() })
	if err != nil {
		return nil, err
	}
	now, err := answer.AsStrSlice() // seconds and microseconds, by the server's clock, like leases
	if err != nil {
		return nil, err
	}
	answer, err = sp.read(ctx, func(b rueidis.Builder) rueidis.Completed {
		return b.Zrangebyscore().Key(sp.root + "alive").Min("(" + now[0] + "000").Max("+inf").Build()
	})
	if err != nil {
		return nil, err
	}
	return answer.AsStrSlice()
}

// Sweeps implements engine.Driver. An owner has few processes here: workers need NATS.
func (sp *space) Sweeps(context.Context, bool) (bool, error) { return true, nil }

// Marks implements engine.Driver.
func (sp *space) Marks(ctx context.Context, _ string) (marks []engine.Mark, err error) {
	for _, key := range []string{"live", "hidden"} {
		answer, err := sp.read(ctx, func(b rueidis.Builder) rueidis.Completed {
			return b.Hgetall().
				Key(sp.root + key).Build()
		})
		if err != nil {
			return nil, err
		}
		some, err := answer.AsStrMap()
		if err != nil {
			return nil, err
		}
		for id, keeper := range some {
			marks = append(marks, engine.Mark{ID: id, Keeper: keeper, Hidden: key == "hidden"})
		}
	}
	return marks, nil
}

// Unmark implements engine.Driver.
func (sp *space) Unmark(ctx context.Context, m engine.Mark) error {
	_, err := sp.call(ctx, "unmark", m.ID, 0, m.Keeper)
	return err
}

// Tidy implements engine.Driver.
func (sp *space) Tidy(ctx context.Context) error {
	for swept := ""; swept != "0"; {
		var err error
		if swept, err = sp.call(ctx, "sweep", "", 0); err != nil {
			return err
		}
	}
	return nil
}
