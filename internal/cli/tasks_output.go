package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"runnel/internal/serve"
	"runnel/internal/term"
	"runnel/partials"
	"runnel/tools"
	"runnel/tools/config"
)

func (i *invocation) tailCommand() *cobra.Command {
	var follow bool
	var after int64
	lines := int64(-1)
	cmd := i.aboutTask("tail ID", "Write the output of a task; with -f as it comes",
		`Writes the task's output so far, from the beginning or from a position on. With -f it follows the output until the task has ended; Ctrl-C
stops following, and the task goes on. Output that the command wrote to stderr goes to stderr, if the tool keeps it apart.`,
		`  runnel tasks tail 4d8a -f

  # the last ten lines
  runnel tasks tail 4d8a -n 10

  # what has come since
  runnel tasks tail 4d8a --after 5120`,
		func(cmd *cobra.Command, l *local, id string) error {
			at, v := after, term.NewView(i.Stdout, i.Stderr, "never", i.Getenv)
			if lines >= 0 {
				if after > 0 {
					return misuse(cmd, "runnel tasks tail: -n does not go with --after")
				}
				var err error
				if at, err = l.lastLines(cmd.Context(), id, int(min(lines, maxTail))); err != nil {
					return err
				}
			}
			_, err := l.runner.Tail(cmd.Context(), id, at, follow, func(b partials.Batch) error {
				if b.Start > at {
					i.Say(zerolog.WarnLevel, fmt.Sprintf("runnel: gap: %d bytes of the output are no "+
						"longer kept (after %d bytes)", b.Start-at, at))
				}
				at = b.End
				for _, c := range b.Chunks() {
					text := string(c.Data)
					isText := true
					stderr := c.Stream == partials.Stderr
					if c.Kind == partials.Item {
						text, isText, stderr = term.Item(c.Data)
					}
					if err := v.Output(text, isText, stderr); err != nil {
						return err
					}
				}
				return nil
			})
			return err
		})
	cmd.Aliases = []string{"logs"}
	cmd.Flags().FuncP("lines", "n", "only the last `N` lines, and what follows them", position(&lines))
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the task has ended")
	cmd.Flags().Func("after", "skip the first `N` bytes of the output", position(&after))
	return cmd
}

// position parses a number of bytes or lines. It is always decimal, unlike the numbers of package pflag, to
// which 010 is 8.
func position(to *int64) func(text string) error {
	return func(text string) error {
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			return config.Wrong("a whole number, 0 or more", "%q is not a number of bytes or lines", text)
		}
		*to = int64(n)
		return nil
	}
}

// maxTail bounds the positions that lastLines keeps, 8 bytes per line.
const maxTail = 1 << 20

// lastLines returns the position where the last n lines of a task's output begin.
func (l *local) lastLines(ctx context.Context, id string, n int) (int64, error) {
	var begins []int64 // the positions where the last lines begin
	var size int64
	begin := true
	_, err := l.runner.Tail(ctx, id, 0, false, func(b partials.Batch) error {
		size = b.End
		at := b.Start
		for _, c := range b.Chunks() {
			for k, char := range c.Data {
				if begin && n > 0 {
					begins = append(begins[max(len(begins)+1-n, 0):], at+int64(k))
				}
				begin = c.Kind == partials.Text && char == '\n'
			}
			at += int64(len(c.Data))
			begin = begin || c.Kind == partials.Item // an item is shown on a separate line
		}
		return nil
	})
	if len(begins) == 0 {
		return size, err
	}
	return begins[0], err
}

func (i *invocation) resultCommand() *cobra.Command {
	var output *serve.Choice
	cmd := i.aboutTask("result ID", "Wait for the result of a task and write it",
		"Waits until the task has ended and writes the content of its result. The exit code is like that "+
			"of runnel call: the command's own, else 0, or 1 for an error.",
		`  runnel tasks result 4d8a223b
  runnel tasks result 4d8a223b -o json | jq .content`,
		func(cmd *cobra.Command, l *local, id string) error {
			t, err := l.runner.Await(cmd.Context(), id)
			if err != nil {
				return err
			}
			if t.Outcome.Err != nil {
				l.runner.RecordRetrieved(id)
				return fmt.Errorf("%s: %w", t.Tool, t.Outcome.Err)
			}
			result, err := t.Result()
			if err != nil {
				return err
			}
			l.runner.RecordRetrieved(id)
			if output.Word == "json" {
				err = writeJSON(i.Stdout, result)
			} else {
				v := term.NewView(i.Stdout, i.Stderr, "never", i.Getenv)
				for _, item := range tools.SplitEnd(result) {
					if text, isText, stderr := term.Item(item); err == nil {
						err = v.Output(text, isText, stderr)
					}
				}
				if _, command := result.Command(); result.IsError && !command { // words, not a command's output
					v.NewLine()
				}
			}
			if err != nil {
				return err
			}
			return exitOf(result)
		})
	output = outputFlag(cmd.Flags(), "json (on one line, as tasks/result gives it)")
	return cmd
}
