package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"runnel/internal/pause"
	"runnel/rpc"
	"runnel/rpc/mcp"
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
// fails if the task cannot be stored; refused says why the call ends with this process all the same, for
// people: its arguments are not stored, or there is no room for notes.
func (c *Call) Resumes(ctx context.Context, key string) (refused string, _ error) {
	if c.run == nil {
		return "", nil
	}
	if err := c.run.Promote(ctx); err != nil {
		return "", err
	}
	if c.run.Secrets().Holds(c.Arguments) {
		return "an argument holds a secret, which is not stored", nil
	}
	if len(c.Arguments) > maxArguments {
		return fmt.Sprintf("the arguments have %d bytes: more than %d are not stored", len(c.Arguments),
			maxArguments), nil
	}
	notes := map[string]any{tasks.ResumeNote: key}
	if len(c.run.Task().Arguments) == 0 && len(c.Arguments) > len("{}") {
		notes[tasks.WorkPrefix+argumentsNote] = c.Arguments
	}
	err := c.run.Remember(ctx, notes)
	if full, ok := errors.AsType[*rpc.Error](err); ok && full.Code == mcp.CodeInvalidParams {
		return full.Message, nil
	}
	return "", err
}

// maxArguments is how long the arguments of a call may be, in bytes, to be kept for another process. The
// work's notes may take some 400 KiB more.
const maxArguments = 128 << 10

// argumentsNote has arguments that are too long to be kept with a task.
const argumentsNote = ".arguments"

// Remember notes things for the call in another process, by name; nil forgets one. They are as durable as the
// state, and ignored if the call does not go on elsewhere. All of them are written with each change, and may
// take 512 KiB with the arguments.
func (c *Call) Remember(ctx context.Context, notes map[string]any) error {
	if tasks.Resumes(c.run.Task().Variables) == "" {
		return nil
	}
	named := map[string]any{}
	for name, value := range notes {
		named[tasks.WorkPrefix+name] = value
	}
	return c.run.Remember(ctx, named)
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
	again := &service{registry: s.registry, runner: s.runner, o: s.o,
		taken: Detached{TaskID: id, Arguments: arguments}}
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
