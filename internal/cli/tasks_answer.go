package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"runnel/internal/term"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/run"
)

// answerCommand is "runnel tasks answer". Its answer goes the way of one by tasks/update: it is stored with
// the task, and the process that runs the task finds it, now or when the task goes on.
func (i *invocation) answerCommand() *cobra.Command {
	var said string
	cmd := i.aboutTask("answer ID [yes|no|JSON]", "Answer the question that a task waits for",
		"Answers the question of a task, whichever runnel runs it, and that of steps also while no runnel runs "+
			"them. Without an answer it asks you for it on a terminal. JSON is the content of a form. A "+
			"call that its "+
			"host waits for, and that is not a task yet, asks its host alone. Passwords are typed with "+
			"runnel attach.",
		"  runnel tasks answer 4d8a\n  runnel tasks answer 4d8a yes\n"+
			`  runnel tasks answer 4d8a '{"version": "1.2"}'`,
		func(cmd *cobra.Command, l *local, id string) error {
			question, params, release, err := l.question(cmd.Context(), id)
			if err != nil {
				return err
			}
			defer release()
			var answer mcp.ElicitResult
			switch {
			case said == "yes":
				answer = mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage("{}")}
			case said == "no":
				answer = mcp.ElicitResult{Action: mcp.ElicitDecline}
			case said != "":
				answer = mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(said)}
			case !term.IsTerminal(i.Stdin):
				fields, add := fieldsOf(params.RequestedSchema), "yes or no"
				if fields != "" {
					add = "a JSON object with its fields, or no:" + fields
				}
				return misuse(cmd, "task %s asks: %s\nthere is no terminal here to ask you on: add %s", id,
					term.Printable(params.Message), add)
			default:
				view := term.NewView(i.Stdout, i.Stderr, "never", i.Getenv)
				answer = (&term.Asker{Stdin: i.Stdin, View: view}).Ask(cmd.Context(), question.Request.Params)
				view.End()
			}
			if answer.Action == mcp.ElicitCancel {
				return errors.New("not answered: the question stays open")
			}
			encoded := rawjson.Encode(answer)
			if _, err := question.Read(encoded); err != nil {
				return fmt.Errorf("the answer to %q %w; it is a JSON object with these fields, or no:%s",
					params.Message, err, fieldsOf(params.RequestedSchema))
			}
			if err := question.Answer(cmd.Context(), encoded); errors.Is(err, tasks.ErrEnded) {
				return fmt.Errorf("task %s has ended: it waits for no answer", id)
			} else if err != nil {
				return err
			}
			_, err = fmt.Fprintf(i.Stdout, "%s answered: %s\n", id, answer.Action)
			return err
		})
	answer := cmd.RunE
	cmd.Args = func(cmd *cobra.Command, args []string) error { return noArguments(cmd, args[min(len(args), 2):]) }
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 2 {
			said = strings.TrimSpace(args[1])
			isJSON := strings.HasPrefix(said, "{") && json.Valid([]byte(said))
			if said != "yes" && said != "no" && !isJSON {
				return misuse(cmd, "the answer %q is none of yes, no and a JSON object", said)
			}
			args = args[:1]
		}
		return answer(cmd, args)
	}
	return cmd
}

// question returns the question that a task asks first, with what it asks. release is called when it is no
// longer used.
func (l *local) question(ctx context.Context, id string) (q *run.Question, params mcp.ElicitParams,
	release func(), err error) {
	v, release, err := l.runner.Follow(ctx, id)
	switch {
	case err != nil:
		return nil, params, nil, err
	case v == nil:
		release()
		return nil, params, nil, fmt.Errorf("task %s has ended: it waits for no answer", id)
	}
	if q = v.FirstForm(); q == nil {
		defer release()
		return nil, params, nil, noQuestion(v)
	}
	_ = json.Unmarshal(q.Request.Params, &params) // it is a form
	return q, params, release, nil
}

// noQuestion says why a task cannot be answered.
func noQuestion(v *run.View) error {
	t := v.Task()
	switch {
	case t.Password != nil:
		return fmt.Errorf("task %s asks for a password: type it with runnel attach %[1]s", t.ID)
	case t.Status == mcp.TaskInputRequired && tasks.Answered(t.Variables):
		return fmt.Errorf("task %s %s", t.ID, tasks.WaitsFor(&t))
	case t.Status == mcp.TaskInputRequired:
		return fmt.Errorf("the question of task %s is answered by the client that has made the call: %s",
			t.ID, t.StatusMessage)
	}
	return fmt.Errorf("task %s waits for no answer: it is %s", t.ID, t.Status)
}

// fieldsOf lists the fields of a form, a line each, "" if it has none.
func fieldsOf(form json.RawMessage) string {
	var b strings.Builder
	for _, f := range term.ReadForm(form) {
		fmt.Fprintf(&b, "\n  %s", term.Printable(f.Name))
		if f.Description != "" {
			fmt.Fprintf(&b, " (%s)", term.Printable(f.Description))
		}
		if words := f.Words(); len(words) > 0 {
			fmt.Fprintf(&b, " [%s]", term.Printable(strings.Join(words, ", ")))
		}
	}
	return b.String()
}
