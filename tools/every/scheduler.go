package every

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"runnel/internal/pause"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tools/config"
	"runnel/tools/schema"
)

// late is how late a start may be: what takes longer is a machine that slept, or a clock that was set, and
// the time is missed.
const late = time.Minute

// nap is how often a goroutine that waits looks at the clock, which may have been set; a machine that sleeps
// stops timers.
const nap = 10 * time.Second

// Starter starts a tool as the task with an id.
type Starter interface {
	StartTask(ctx context.Context, id, tool string, arguments []byte) error
}

// Scheduler starts the tools of its entries at their times, once it runs. Make one with New.
type Scheduler struct {
	runner  *run.Runner // of the owner, whose processes share the claims
	starter Starter
	log     zerolog.Logger
	now     func() time.Time // by the wall clock

	mu      sync.Mutex
	entries []running
	runs    bool
}

// running is an entry, and the context of the goroutine that follows it.
type running struct {
	Entry
	ctx  context.Context
	stop context.CancelFunc
}

// New makes a scheduler, which starts nothing before Run.
func New() *Scheduler { return &Scheduler{now: func() time.Time { return time.Now().Round(0) }} }

// Run starts the tools from now on, until Stop or the end of the runner.
func (s *Scheduler) Run(runner *run.Runner, starter Starter, log zerolog.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runner, s.starter, s.log, s.runs = runner, starter, log, true
	for _, r := range s.entries {
		s.begin(r)
	}
}

// Replace sets the entries. Those that are the same as before go on.
func (s *Scheduler) Replace(list []Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var next []running
	for _, e := range list {
		i := slices.IndexFunc(s.entries, func(r running) bool { return r.same(&e) })
		if i >= 0 {
			next = append(next, s.entries[i])
			s.entries = slices.Delete(s.entries, i, i+1)
			continue
		}
		r := running{Entry: e}
		r.ctx, r.stop = context.WithCancel(context.Background())
		if next = append(next, r); s.runs {
			s.begin(r)
		}
	}
	for _, r := range s.entries {
		r.stop()
	}
	s.entries = next
}

// begin starts the goroutine of an entry. s.mu is held.
func (s *Scheduler) begin(r running) {
	s.runner.Go(func(ctx context.Context) { // it does not run once the runner is closed
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(r.ctx, cancel)()
		s.follow(ctx, &r.Entry)
	})
}

// Stop starts nothing more. What runs goes on.
func (s *Scheduler) Stop() {
	s.Replace(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs = false
}

// follow starts the tool of an entry at its times, until ctx ends.
func (s *Scheduler) follow(ctx context.Context, e *Entry) {
	for last := s.now(); ; {
		next := e.schedule.Next(last)
		if next.IsZero() {
			return // not within five years
		}
		if wait := min(next.Sub(s.now()), nap); wait > 0 && !pause.For(ctx, wait) {
			return
		}
		now := s.now()
		switch {
		case now.Before(last): // the clock was set back; what was claimed does not come again
			last = now
		case !now.Before(next):
			due, missed := e.latest(last, now)
			if missed {
				s.log.Info().Str("tool", e.Tool).Time("due", next).
					Msg("this tool was not started: the machine slept, its clock was set, or the start " +
						"before took too long")
			}
			if !due.IsZero() {
				s.fire(ctx, e, due, now)
			}
			last = now
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// latest returns the latest time in (from, now] that is not too long ago, zero if there is none; missed
// reports whether there was an earlier one.
func (e *Entry) latest(from, now time.Time) (due time.Time, missed bool) {
	first := e.schedule.Next(from)
	if earliest := now.Add(-late); from.Before(earliest) {
		from = earliest.Add(-1)
	}
	for t := e.schedule.Next(from); !t.IsZero() && !t.After(now); t = e.schedule.Next(t) {
		due = t
	}
	return due, due.IsZero() || first.Before(due)
}

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

// Entry is a tool that starts by itself.
type Entry struct {
	Tool      string
	Cron      string
	Arguments json.RawMessage // an object
	Place     string          // keeps equal tools apart on a state: the directory of the config; "" on servers

	schedule *config.Schedule
}

// All returns the entries of a config, in the order of their names. specs describe its tools. The error joins
// those of all entries, each with its place in the file: their arguments must be those of the tools.
func All(c *config.Config, specs []mcp.Tool, place string) ([]Entry, error) {
	var list []Entry
	var errs []error
	for i := range specs {
		name := specs[i].Name
		e := c.Tools[name].Every
		if e == nil {
			continue
		}
		parsed, err := config.ParseCron(e.Cron)
		if err != nil {
			continue // config.Command.Complete has said so
		}
		arguments := json.RawMessage("{}")
		if len(e.With) > 0 {
			arguments = e.With
		}
		checker := schema.New(specs[i].InputSchema, "")
		if checker.Compile() == nil { // else the schema is reported, too
			if arguments, err = checker.Fit(arguments); err != nil {
				errs = append(errs, c.Locate(config.Join("tools", name), &config.Error{Key: "every",
					Problem: fmt.Sprintf("it cannot start with these arguments: %v", err),
					Allowed: "every: {cron: ..., with: {...}} with the arguments that the tool requires"}))
				continue
			}
		}
		list = append(list, Entry{Tool: name, Cron: e.Cron, Arguments: arguments, Place: place,
			schedule: parsed})
	}
	return list, config.JoinErrors(errs)
}

// same reports whether two entries are equal, so that one can go on as the other.
func (e *Entry) same(other *Entry) bool {
	return e.Tool == other.Tool && e.Cron == other.Cron && e.Place == other.Place &&
		slices.Equal(e.Arguments, other.Arguments)
}

// key is the id of the value that the processes of a state share about the entry.
func (e *Entry) key() string {
	sum := sha256.Sum256([]byte(e.Place + "\x00" + e.Tool))
	return "every-" + hex.EncodeToString(sum[:16])
}
