package tasks

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// The process that has taken a task has no client. What it has to say beside the output, and what it asks, it writes down as notes: members of
// the task's variables whose names begin with notePrefix, which every state keeps and tells of. Who follows the task reads them, and answers.
// Variables as people and tools see them have no notes (OwnVariables), and nobody else can set any (CheckVariables).
//
//	runnel/question/KEY  by who runs the task: a question that is open
//	runnel/answer/KEY    by who follows it: the first answer counts
//	runnel/progress      by who runs it: how far it is
const (
	notePrefix     = "runnel/"
	questionPrefix = notePrefix + "question/"
	answerPrefix   = notePrefix + "answer/"
	progressNote   = notePrefix + "progress"
)

// questionNote is a question that is open.
type questionNote struct {
	mcp.InputRequest
	Message string `json:"message"`
}

// answerNote is an answer: a result, or why there is none.
type answerNote struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  *rpc.Error      `json:"error,omitempty"`
}

// notes are those of a task.
type notes struct {
	questions []*Question // that are open and have no answer, oldest first
	answers   map[string]answerNote
	progress  Progress
	names     []string // of all
}

// hasNotes reports whether there may be notes among variables: most have none, and need not be decoded.
func hasNotes(variables json.RawMessage) bool {
	return bytes.Contains(variables, []byte(`"`+notePrefix))
}

// readNotes reads the notes among variables. What is damaged reads as absent.
func readNotes(variables json.RawMessage) *notes {
	n := &notes{answers: map[string]answerNote{}}
	if !hasNotes(variables) {
		return n
	}
	for it := rawjson.Over(variables); it.Next(); {
		name := string(it.Name)
		if !strings.HasPrefix(name, notePrefix) {
			continue
		}
		n.names = append(n.names, name)
		if key, ok := strings.CutPrefix(name, questionPrefix); ok {
			var q questionNote
			if json.Unmarshal(it.Value, &q) == nil && q.Method != "" {
				n.questions = append(n.questions, newQuestion(key, q))
			}
		} else if key, ok := strings.CutPrefix(name, answerPrefix); ok {
			var a answerNote
			if json.Unmarshal(it.Value, &a) == nil {
				n.answers[key] = a
			}
		} else if name == progressNote {
			_ = json.Unmarshal(it.Value, &n.progress)
		}
	}
	n.questions = slices.DeleteFunc(n.questions, func(q *Question) bool { _, answered := n.answers[q.key]; return answered })
	slices.SortFunc(n.questions, func(a, b *Question) int { // question-10 comes after question-9
		return cmp.Or(cmp.Compare(len(a.key), len(b.key)), strings.Compare(a.key, b.key))
	})
	return n
}

func newQuestion(key string, n questionNote) *Question {
	q := &Question{Request: n.InputRequest, Message: n.Message, key: key}
	q.closed, q.close = context.WithCancel(context.Background())
	return q
}

// OwnVariables are variables without the notes among them; nil if there are none.
func OwnVariables(variables json.RawMessage) json.RawMessage {
	if !hasNotes(variables) {
		return variables
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(variables, &members) != nil {
		return nil
	}
	for name := range members {
		if strings.HasPrefix(name, notePrefix) {
			delete(members, name)
		}
	}
	if len(members) == 0 {
		return nil
	}
	return rawjson.Encode(members)
}

// onlyNotes reports whether a patch sets notes and nothing else: the limits of people's variables are not theirs.
func onlyNotes(patch map[string]json.RawMessage) bool {
	for name := range patch {
		if !strings.HasPrefix(name, notePrefix) {
			return false
		}
	}
	return len(patch) > 0
}

// note writes notes of the task; null takes one away. The end of the task takes all away that are left.
func (v *View) note(ctx context.Context, patch map[string]any) (json.RawMessage, error) {
	return v.runner.setStored(ctx, v.id, rawjson.Encode(patch))
}

// hear takes up the notes of a task that another process runs: questions that are new or gone, and progress. tell lets the client hear of what
// is new, after the status that came with it.
func (v *View) hear(variables json.RawMessage, client Client) (tell func()) {
	n := readNotes(variables)
	v.mu.Lock()
	fresh := slices.DeleteFunc(slices.Clone(n.questions), func(q *Question) bool { return v.settled[q.key] || v.question(q.key) != nil })
	var gone []*Question
	v.open = slices.DeleteFunc(v.open, func(q *Question) bool {
		stays := slices.ContainsFunc(n.questions, func(other *Question) bool { return other.key == q.key })
		if !stays {
			gone = append(gone, q)
		}
		return !stays
	})
	moved := n.progress != Progress{} && n.progress != v.task.Progress
	if moved {
		v.task.Progress = n.progress
	}
	v.mu.Unlock()
	for _, q := range gone {
		q.close()
	}
	if len(gone) > 0 {
		v.changes.Send()
	}
	return func() {
		for _, q := range fresh {
			q.view = v
			send, err := client.Asked(q)
			if err != nil {
				q.Refuse(v.ctx, err)
				continue
			}
			v.mu.Lock()
			q.Sent = send != nil
			v.open = append(v.open, q)
			v.mu.Unlock()
			if send != nil {
				send()
			}
		}
		if len(fresh) > 0 {
			v.changes.Send()
		}
		if moved {
			client.Progress(n.progress)
		}
	}
}

// reply writes down answers to questions of a task that another process runs.
func (v *View) reply(ctx context.Context, answers map[string]answerNote) error {
	patch := map[string]any{}
	for key, answer := range answers {
		patch[answerPrefix+key] = answer
	}
	if len(patch) == 0 {
		return nil
	}
	if _, err := v.note(ctx, patch); err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.settled == nil {
		v.settled = map[string]bool{}
	}
	for key := range answers {
		v.settled[key] = true // what was read before the answer was written may still come
	}
	v.open = slices.DeleteFunc(v.open, func(q *Question) bool {
		if v.settled[q.key] {
			q.close()
		}
		return v.settled[q.key]
	})
	v.changes.Send()
	return nil
}

// From here on: the process that runs the task.

// publish lets those who follow the task see a question, and waits for their answer in a goroutine of its own, until the question is closed.
// The door is held.
func (r *Run) publish(q *Question) error {
	if _, err := r.note(r.ctx, map[string]any{questionPrefix + q.key: questionNote{q.Request, q.Message}}); err != nil {
		return err
	}
	r.runner.Go(func(ctx context.Context) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(q.closed, cancel)()
		for {
			a, err := r.awaitAnswer(ctx, q.key)
			switch {
			case ctx.Err() != nil:
				return
			case err == nil && a.Error != nil:
				q.refused <- a.Error
				return
			case err == nil:
				_ = r.Answer(ctx, map[string]json.RawMessage{q.key: a.Result}) // it has no other end to go to
				return
			}
			r.runner.o.Log.Warn().Err(err).Str("taskId", r.id).Msg("looking for the answer to a question")
			select {
			case <-time.After(lookAgain):
			case <-ctx.Done():
				return
			}
		}
	})
	return nil
}

// awaitAnswer waits until somebody has answered a question. Questions of many hours cost what following a task does.
func (r *Run) awaitAnswer(ctx context.Context, key string) (answerNote, error) {
	t, err := r.runner.o.State.Get(ctx, r.runner.o.Owner, r.id)
	if err != nil {
		return answerNote{}, err
	}
	t.Log.Follow()
	t.Segments.Follow()
	for {
		if a, ok := readNotes(t.Variables).answers[key]; ok {
			return a, nil
		}
		if err := r.runner.o.State.Watch(ctx, &t); err != nil {
			return answerNote{}, err
		}
	}
}

// unpublish takes back a question, and its answer.
func (r *Run) unpublish(q *Question) {
	_, err := r.note(context.WithoutCancel(r.ctx), map[string]any{questionPrefix + q.key: nil, answerPrefix + q.key: nil})
	if err != nil { // who follows the task may show the question until the task ends
		r.runner.o.Log.Debug().Err(err).Str("taskId", r.id).Msg("taking a question back")
	}
}

// progressPace is the least time between two notes of progress: each is a write of the state.
const progressPace = 250 * time.Millisecond

// TellProgress lets those who follow the task know how far it is (Report), if this process has taken it from them. What comes too soon after
// the last is told later, unless more comes meanwhile.
func (r *Run) TellProgress() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.taken {
		return
	}
	if r.moved == nil {
		r.moved = make(chan struct{}, 1)
		r.runner.Go(r.tellProgress)
	}
	select {
	case r.moved <- struct{}{}:
	default:
	}
}

// tellProgress writes down how far the task is, until it has ended.
func (r *Run) tellProgress(ctx context.Context) {
	for {
		select {
		case <-r.moved:
		case <-r.ended.Done():
			return
		case <-ctx.Done():
			return
		}
		r.mu.Lock()
		p := r.task.Progress
		r.mu.Unlock()
		_, _ = r.note(ctx, map[string]any{progressNote: p}) // the next one may be told
		select {
		case <-time.After(progressPace):
		case <-r.ended.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// forgetNotes takes away what an attempt before this one has left.
func (r *Run) forgetNotes(ctx context.Context) error {
	patch := map[string]any{}
	for _, name := range readNotes(r.task.Variables).names {
		patch[name] = nil
	}
	if len(patch) == 0 {
		return nil
	}
	left, err := r.note(ctx, patch)
	r.task.Variables = left
	return err
}
