package reading

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"runnel/partials"
	"runnel/tasks/run"
	"runnel/tasks/statetest"
)

// An answer waits for what a program says, not only for the line that its terminal shows as it is typed.
func TestSettle(t *testing.T) {
	type write struct {
		after time.Duration
		text  string
	}
	for name, c := range map[string]struct {
		writes []write
		echoed int64
		limit  time.Duration
		want   time.Duration
	}{
		"a program that starts slowly":     {[]write{{2 * time.Second, "hello\n"}}, 0, time.Minute, 2*time.Second + quiet},
		"one that says nothing":            {nil, 0, 10 * time.Second, 10 * time.Second},
		"an answer after the echo":         {[]write{{0, "x\n"}, {time.Second, "42\n"}}, 2, time.Minute, time.Second + quiet},
		"an answer right after it":         {[]write{{0, "x\n42\n"}}, 2, time.Minute, quiet},
		"an answer in pieces":              {[]write{{0, "x\n"}, {time.Second, "4"}, {quiet / 2, "2\n"}}, 2, time.Minute, time.Second + quiet/2 + quiet},
		"a line that is not answered":      {[]write{{0, "x\n"}}, 2, time.Minute, quietEcho},
		"an answer later than one waits":   {[]write{{0, "x\n"}, {time.Minute, "42\n"}}, 2, time.Second, time.Second},
		"a line that does not show itself": {[]write{{time.Second, "42\n"}}, 2, time.Minute, time.Second + quiet},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := statetest.NewRunner(t, run.Options{})
				for range 2 {
					began, rest := time.Now(), make(chan struct{})
					task := statetest.StartDelivered(t, r, func(ctx context.Context, task *run.Run) run.Done {
						for _, w := range c.writes {
							time.Sleep(w.after)
							if err := task.Log().Append(ctx, partials.Chunk{Data: []byte(w.text)}); err != nil {
								t.Error(err)
							}
						}
						<-rest
						return run.Done{}
					})
					Settle(t.Context(), &task.View, 0, c.echoed, c.limit)
					if took := time.Since(began); took != c.want {
						t.Errorf("after %v, want %v", took, c.want)
					}
					close(rest)
					<-task.Ended()
				}
			})
		})
	}
}
