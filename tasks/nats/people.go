package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"runnel/tasks"
)

// People ask this of a state; clients do not.

// someTasks are read at once where all of them are: a page costs the server more, the more tasks there are.
const someTasks = mostSubjects - 1

// each calls do with all of an owner's tasks, until it returns false.
func (s *State) each(ctx context.Context, owner string, do func(*tasks.Task) bool) error {
	for cursor := ""; ; {
		page, next, err := s.List(ctx, owner, cursor, someTasks)
		if err != nil {
			return err
		}
		for i := range page {
			if !do(&page[i]) {
				return nil
			}
		}
		if cursor = next; cursor == "" {
			return nil
		}
	}
}

// Find returns the ids of an owner's tasks that begin with a text, most ids at most.
func (s *State) Find(ctx context.Context, owner, prefix string, most int) (ids []string, err error) {
	sp, err := s.space(ctx, owner)
	if err != nil {
		return nil, err
	}
	made, err := sp.subjects(ctx, sp.name, sp.subject("*", "made"))
	if err != nil {
		return nil, err
	}
	slices.Sort(made)
	for _, subject := range made {
		id := strings.TrimSuffix(strings.TrimPrefix(subject, sp.root), ".made")
		if len(ids) == most || !strings.HasPrefix(id, prefix) {
			continue
		}
		if _, _, err := s.find(ctx, owner, id); err == nil {
			ids = append(ids, id)
		} else if !errors.Is(err, tasks.ErrNotFound) {
			return nil, err
		}
	}
	return ids, nil
}

// Forget deletes an owner's tasks that have ended by a time, and returns them as List does. What has not ended stays and, unless
// forced, those whose result nobody has fetched: so many are kept.
func (s *State) Forget(ctx context.Context, owner string, ended time.Time, force bool) (gone []tasks.Task, kept int, err error) {
	sp, err := s.space(ctx, owner)
	if err != nil {
		return nil, 0, err
	}
	fetched, err := sp.subjects(ctx, sp.name, sp.subject("*", "fetched"))
	if err != nil {
		return nil, 0, err
	}
	got := map[string]bool{}
	for _, subject := range fetched {
		got[subject] = true
	}
	err = s.each(ctx, owner, func(t *tasks.Task) bool {
		switch {
		case !t.Status.Terminal() || t.UpdatedAt.After(ended):
		case force || got[sp.subject(t.ID, "fetched")]:
			gone = append(gone, *t)
		default:
			kept++
		}
		return true
	})
	for i := range gone {
		if err == nil {
			err = s.Delete(ctx, owner, gone[i].ID)
		}
		if err != nil {
			return gone[:i], kept, err
		}
	}
	return gone, kept, err
}

// Check looks whether the servers answer, and says for people what an owner has there.
func (s *State) Check(ctx context.Context, owner string) (string, error) {
	sp, err := s.space(ctx, owner)
	if err != nil {
		return "", err
	}
	stream, err := s.js.Stream(ctx, sp.name)
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
