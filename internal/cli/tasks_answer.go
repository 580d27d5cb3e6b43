package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"runnel/internal/term"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
)

// answerCommand is "runnel tasks answer". Its answer goes the way of one by tasks/update: it is stored with
// the task, and the process that runs the task finds it, now or when the task goes on.
func (i *invocation) answerCommand() *cobra.Command {
	var said string
	cmd := i.aboutTask("answer ID [yes|no|JSON]", "Answer the question that a task waits for",
		"Answers the question of a task made of steps, also while no runnel runs it. Without an answer it asks "+
			"you for it on a terminal. JSON is the content of a form.",
		"  runnel tasks answer 4d8a\n  runnel tasks answer 4d8a yes",
		func(cmd *cobra.Command, l *local, id string) error {
			v, release, err := l.runner.Follow(cmd.Context(), id)
			if err != nil {
				return err
			}
			defer release()
			if v == nil {
				return fmt.Errorf("task %s has ended: it waits for no answer", id)
			}
			key, question := v.FirstQuestion()
			switch {
			case key == "" && v.Task().Status == mcp.TaskInputRequired:
				return fmt.Errorf("the question of task %s is answered by the client that has made the call: %s", id,
					v.Task().StatusMessage)
			case key == "":
				return fmt.Errorf("task %s waits for no answer: it is %s", id, v.Task().Status)
			}
			var answer mcp.ElicitResult
			switch {
			case said == "yes":
				answer = mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage("{}")}
			case said == "no":
				answer = mcp.ElicitResult{Action: mcp.ElicitDecline}
			case said != "":
				answer = mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(said)}
			case !term.IsTerminal(i.Stdin):
				return misuse(cmd, "task %s asks: %s\nthere is no terminal here to ask you on: add yes or no", id,
					v.Task().StatusMessage)
			default:
				view := term.NewView(i.Stdout, i.Stderr, "never", i.Getenv)
				answer = (&term.Asker{Stdin: i.Stdin, View: view}).Ask(cmd.Context(), question.Params)
				view.End()
			}
			if answer.Action == mcp.ElicitCancel {
				return errors.New("not answered: the question stays open")
			}
			responses := map[string]json.RawMessage{key: rawjson.Encode(answer)}
			if err := v.CheckResponses(responses); err != nil {
				return fmt.Errorf("task %s takes another answer: %w", id, err)
			}
			if err := v.Answer(cmd.Context(), responses); errors.Is(err, tasks.ErrEnded) {
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
			said = args[1]
			if said != "yes" && said != "no" && !strings.HasPrefix(said, "{") {
				return misuse(cmd, "the answer %q is none of yes, no and a JSON object", said)
			}
			args = args[:1]
		}
		return answer(cmd, args)
	}
	return cmd
}
