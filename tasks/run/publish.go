package run

import (
	"context"
	"encoding/json"

	"runnel/tasks"
)

// publish shows a question to the followers of the task, and starts a goroutine that waits for their answer
// until the question is closed. changing is held.
func (r *Run) publish(q *Question) error {
	if _, err := r.setNotes(r.ctx,
		map[string]any{tasks.QuestionPrefix + q.key: questionNote{q.Request, q.Message}}); err != nil {
		return err
	}
	r.runner.Go(func(ctx context.Context) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(q.closed, cancel)()
		switch a, err := r.awaitAnswer(ctx, q.key); {
		case err != nil: // the question is closed
		case a.Error != nil:
			q.refused <- a.Error
		default:
			_ = r.Answer(ctx, map[string]json.RawMessage{q.key: a.Result}) // it cannot fail here
		}
	})
	return nil
}

// awaitAnswer waits until a follower has answered a question. That costs as much as following a task.
func (r *Run) awaitAnswer(ctx context.Context, key string) (answerNote, error) {
	var t tasks.Task
	err := r.runner.retryWatch(ctx, r.id, func() (err error) {
		t, err = r.runner.store.Get(ctx, r.id)
		return err
	})
	if err != nil {
		return answerNote{}, err
	}
	t.Log.Follow()
	t.Segments.Follow()
	for {
		if a, ok := readNotes(t.Variables, t.Attempt).answers[key]; ok {
			return a, nil
		}
		if err := r.runner.watchStored(ctx, &t); err != nil {
			return answerNote{}, err
		}
	}
}

// unpublish deletes a question and its answer.
func (r *Run) unpublish(q *Question) {
	_, err := r.setNotes(context.WithoutCancel(r.ctx),
		map[string]any{tasks.QuestionPrefix + q.key: nil, tasks.AnswerPrefix + q.key: nil})
	if err != nil { // followers may show the question until the task ends
		r.runner.o.Log.Debug().Err(err).Str("taskId", r.id).Msg("withdrawing a question")
	}
}

// forgetNotes deletes the notes that an earlier attempt has left.
func (r *Run) forgetNotes(ctx context.Context) error {
	patch := map[string]any{}
	for _, name := range readNotes(r.task.Variables, r.task.Attempt).names {
		patch[name] = nil
	}
	if len(patch) == 0 {
		return nil
	}
	left, err := r.setNotes(ctx, patch)
	if err == nil {
		r.task.Variables = left
	}
	return err
}
