package tools

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"runnel/internal/pause"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/feed"
	"runnel/tasks/run"
)

// Resumable is a Tool whose calls can go on in another process once theirs has ended. Such a call notes with
// Call.Remember what it has done, and is called again with its Remembered notes.
type Resumable interface {
	Kind

	// ResumeKey names what continues the calls: the Resumable of another process, with the same key.
	ResumeKey() string
}

// Resumes lets the call go on in another process, with the Resumable of this key. Its task gets a handle. It
// fails if the task cannot be stored; false means that the state ends with this process, or cannot keep the
// call's arguments, which hold a secret.
func (c *Call) Resumes(ctx context.Context, key string) (bool, error) {
	if c.run == nil {
		return false, nil
	}
	if err := c.run.Promote(ctx); err != nil {
		return false, err
	}
	if c.run.Secrets().Holds(c.Arguments) {
		return false, nil
	}
	if len(c.run.Task().Arguments) == 0 && len(c.Arguments) > len("{}") {
		if err := c.Remember(ctx, argumentsNote, c.Arguments); err != nil {
			return false, err
		}
	}
	return true, c.run.Resumes(ctx, key)
}

// argumentsNote has arguments that are too long to be kept with a task.
const argumentsNote = ".arguments"

// Remember notes something for the call in another process, under a name; nil forgets it. It is as durable as
// the state, and nothing but a variable in memory if the call does not resume.
func (c *Call) Remember(ctx context.Context, name string, value any) error {
	return c.run.Remember(ctx, map[string]any{tasks.WorkPrefix + name: value})
}

// Remembered returns the notes of the call, by name, as JSON.
func (c *Call) Remembered() map[string]json.RawMessage {
	if c.run == nil {
		return nil
	}
	return c.run.Remembered()
}

// Closing reports whether the call is stopped because its process ends, and not cancelled.
func (c *Call) Closing() bool { return c.server != nil && c.server.tasks().Closing() }

// resumeInterval is how often a process with a Resumable looks for calls that others have left.
const resumeInterval = 2 * time.Second

// resumeLeft continues the calls of Resumables that other processes have left, until ctx ends. Without a
// Resumable it only waits for a change of the list.
func (s *service) resumeLeft(ctx context.Context) {
	changed, stop := s.registry.changes.Watch()
	defer stop()
	for failed := false; ; {
		of := s.registry.resumables()
		if len(of) == 0 {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return
			}
		}
		left, err := s.runner.Left(ctx)
		if err != nil && !failed && ctx.Err() == nil {
			s.o.Log.Warn().Err(err).Msg("looking for calls that other runnels have left")
		}
		failed = err != nil
		for i := range left {
			if e := of[tasks.Resumes(left[i].Variables)]; e != nil {
				s.resumeCall(ctx, e, left[i].ID)
			}
		}
		if !pause.For(ctx, resumeInterval) {
			return
		}
	}
}

// resumables returns the Resumables by key.
func (r *Registry) resumables() map[string]*entry {
	r.mu.RLock()
	defer r.mu.RUnlock()
	of := map[string]*entry{}
	for _, e := range r.tools {
		if tool, ok := e.tool.(Resumable); ok {
			of[tool.ResumeKey()] = e
		}
	}
	return of
}

// resumeCall continues a call that another process has left. It has no client; every client that finds the
// task can answer its questions.
func (s *service) resumeCall(ctx context.Context, e *entry, id string) {
	log := s.o.Log.With().Str("taskId", id).Str("tool", e.spec.Name).Logger()
	t, err := s.runner.Get(ctx, id)
	if err != nil {
		return // it has ended
	}
	if above := rawjson.StringMember(t.Variables, tasks.AboveNote); above != "" {
		top, err := s.runner.Head(ctx, above)
		if err == nil && top.Status.Terminal() || errors.Is(err, tasks.ErrNotFound) {
			log.Info().Str("above", above).Msg("this call is cancelled: the task that has begun it has ended")
			if _, err := s.runner.Cancel(ctx, id); err != nil && ctx.Err() == nil {
				log.Debug().Err(err).Msg("a call that was left is not cancelled")
			}
			return
		}
	}
	arguments := t.Arguments
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	if long := rawjson.Member(t.Variables, tasks.WorkPrefix+argumentsNote); long != nil {
		arguments = long
	}
	again := &service{registry: s.registry, runner: s.runner, o: s.o, taken: Detached{TaskID: id, Arguments: arguments}}
	d := again.deliver(nil, false, feed.ByResult)
	d.audience.far = anyoneAsks
	resumed, err := s.runner.Take(ctx, id, []byte(`{}`), again.spec(e, arguments, d, run.Spec{}))
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			log.Debug().Err(err).Msg("a call that was left is continued by another runnel, or has ended")
		}
		return
	}
	log.Info().Msg("this call goes on here: the runnel that ran it has ended")
	d.begin(resumed)
	resumed.Delivered()
}
