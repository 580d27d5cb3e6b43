package dynamodb

import (
	"context"
	"errors"
	"time"

	"runnel/internal/pause"
	"runnel/tasks"
	"runnel/tasks/engine"
)

// asked returns the partition with the requests of others to a process.
func asked(keeper string) string { return "asked:" + keeper }

// Ask implements engine.Driver.
func (sp *space) Ask(ctx context.Context, r *engine.Record) error {
	for told := ""; ; {
		told = r.Stored.Keeper
		if err := sp.write(ctx, sp.put(with(sp.key(asked(told), r.ID),
			item{"expires": sp.expiry(&r.Task)}))); err != nil {
			return err
		}
		again, err := sp.Read(ctx, r.ID)
		if errors.Is(err, tasks.ErrNotFound) ||
			err == nil && (again.Terminal() || again.Stored.Keeper == told) {
			return nil
		} else if err != nil {
			return err
		}
		r = again // another process has taken it meanwhile
	}
}

// Asked implements engine.Driver.
func (sp *space) Asked(ctx context.Context) (ids []string, err error) {
	list, err := sp.query(ctx, span{partition: asked(sp.of.Keeper), keys: true})
	for _, i := range list {
		ids = append(ids, textOf(i, "sk"))
	}
	return ids, err
}

// DynamoDB does not announce changes, so a follower polls: soon after a change, and then less and less often.
const lookSoon = 100 * time.Millisecond

// hearing knows the time until the next look.
type hearing struct{ time.Duration }

// Hear implements engine.Driver.
func (sp *space) Hear(context.Context, string) (engine.Hearing, error) {
	return &hearing{lookSoon}, nil
}

// Wait implements engine.Hearing.
func (p *hearing) Wait(ctx context.Context) (engine.News, error) {
	if !pause.For(ctx, p.Duration) {
		return engine.News{}, context.Cause(ctx)
	}
	p.Duration = p.Duration * 3 / 2 // the state bounds the wait
	return engine.News{}, nil
}

// Found implements engine.Hearing.
func (p *hearing) Found() { p.Duration = lookSoon }

// Close implements engine.Hearing.
func (p *hearing) Close() {}
