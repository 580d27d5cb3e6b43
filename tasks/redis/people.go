package redis

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"runnel/tasks"
)

// People ask this of a state; clients do not.

// Find returns the ids of an owner's tasks that begin with a text, most ids at most.
func (s *State) Find(ctx context.Context, owner, prefix string, most int) ([]string, error) {
	sp, err := s.space(ctx, owner)
	if err != nil {
		return nil, err
	}
	answer, err := sp.read(ctx, func(b rueidis.Builder) rueidis.Completed {
		return b.Zrange().Key(sp.root + "tasks").Min("0").Max("-1").Build()
	})
	if err != nil {
		return nil, err
	}
	ids, err := answer.AsStrSlice()
	if err != nil {
		return nil, err
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return !strings.HasPrefix(id, prefix) })
	slices.Sort(ids)
	var seen []string
	for some := range slices.Chunk(ids, someTasks) {
		found, err := sp.records(ctx, some)
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			if r != nil && len(seen) < most {
				seen = append(seen, r.ID)
			}
		}
		if len(seen) == most {
			break
		}
	}
	return seen, nil
}

// Forget deletes an owner's tasks that have ended by a time, and returns them as List does. What has not ended stays and, unless
// forced, those whose result nobody has fetched: so many are kept.
func (s *State) Forget(ctx context.Context, owner string, ended time.Time, force bool) (gone []tasks.Task, kept int, err error) {
	sp, err := s.space(ctx, owner)
	if err != nil {
		return nil, 0, err
	}
	for cursor := ""; ; {
		page, next, err := s.List(ctx, owner, cursor, someTasks)
		if err != nil {
			return gone, kept, err
		}
		page = slices.DeleteFunc(page, func(t tasks.Task) bool { return !t.Status.Terminal() || t.UpdatedAt.After(ended) })
		ids := make([]string, len(page))
		for i := range page {
			ids[i] = page[i].ID
		}
		fetched := sp.each(ctx, ids, func(b rueidis.Builder, id string) rueidis.Completed {
			return b.Hexists().Key(sp.root + "task:" + id).Field("fetched").Build()
		})
		for i := range page {
			if was, _ := fetched[i].AsBool(); !was && !force {
				kept++
				continue
			}
			if err := s.Delete(ctx, owner, page[i].ID); err != nil {
				return gone, kept, err
			}
			gone = append(gone, page[i])
		}
		if cursor = next; cursor == "" {
			return gone, kept, nil
		}
	}
}

// Check looks whether the server answers, and says for people what an owner has there.
func (s *State) Check(ctx context.Context, owner string) (string, error) {
	sp, err := s.space(ctx, owner)
	if err != nil {
		return "", err
	}
	live, err := sp.read(ctx, func(b rueidis.Builder) rueidis.Completed { return b.Hlen().Key(sp.root + "live").Build() })
	if err != nil {
		return "", err
	}
	all, err := sp.read(ctx, func(b rueidis.Builder) rueidis.Completed { return b.Zcard().Key(sp.root + "tasks").Build() })
	if err != nil {
		return "", err
	}
	alive, err := sp.alive(ctx)
	if err != nil {
		return "", err
	}
	working, _ := live.AsInt64()
	stored, _ := all.AsInt64()
	report := fmt.Sprintf("%d tasks, %d of them not ended, %d runnels use it", stored, working, len(alive))
	return report + sp.risks(ctx), nil
}

// risks says how the server may lose what it has stored, if this user may ask it.
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
		said += "; where its memory is full it drops tasks (set maxmemory-policy noeviction)"
	}
	return said
}
