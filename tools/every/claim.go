package every

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"runnel/tasks"
)

// claim is what the processes of a state share about an entry.
type claim struct {
	At   time.Time `json:"at"`   // the latest time that was taken
	Task string    `json:"task"` // the one that was started last
}

// setBack is how far a clock may be set back, or be behind another machine's, so that a time which was taken
// does not come again. Beyond that, the clock that took it was wrong: a claim from years ahead would stop the
// entry for ever.
const setBack = 3 * time.Hour

// errTaken says that another process has taken the time, or that it came before the clock was set back.
var errTaken = errors.New("the time is taken")

// fire starts the tool of an entry, if no other process has done so, and if what it started last has ended.
func (s *Scheduler) fire(ctx context.Context, e *Entry, due, now time.Time) {
	id := tasks.NewID(now)
	log := s.log.With().Str("tool", e.Tool).Time("due", due).Logger()
	var runs string // the task that still runs
	err := s.runner.Tally(ctx, e.key(), func(old []byte) ([]byte, error) {
		next := claim{due.UTC(), id}
		runs = ""
		var before claim
		if json.Unmarshal(old, &before) == nil {
			if !before.At.Before(due) && before.At.Before(now.Add(setBack)) {
				return nil, errTaken
			}
			switch t, err := s.runner.Head(ctx, before.Task); {
			case errors.Is(err, tasks.ErrNotFound): // it was deleted, or its process died before it was there
			case err != nil:
				return nil, err
			case !t.Status.Terminal():
				runs, next.Task = before.Task, before.Task
			}
		}
		return json.Marshal(next)
	})
	switch {
	case errors.Is(err, errTaken), err != nil && ctx.Err() != nil:
	case err != nil:
		log.Error().Err(err).Msg("this tool was not started: the state does not say whether another " +
			"runnel has done so")
	case runs != "":
		log.Warn().Str("taskId", runs).
			Msg("this tool was not started: the task from the time before still runs")
	default:
		if err := s.starter.StartTask(ctx, id, e.Tool, e.Arguments); err != nil {
			log.Error().Err(err).Msg("this tool was not started")
			return
		}
		log.Info().Str("taskId", id).Msg("started by the clock")
	}
}
