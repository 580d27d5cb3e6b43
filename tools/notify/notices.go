package notify

import (
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"runnel/internal/shorten"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tools/config"
	"runnel/tools/secrets"
	"runnel/tools/text"
)

const (
	// maxWaiting is how many notices of some 2 KiB may wait for one way. Further ones are lost, since a
	// person reads only a few.
	maxWaiting = 100
	// closeGrace is how long Close waits for notices that are being sent: longer than a desktop and most
	// servers need, shorter than hosts wait.
	closeGrace = 3 * time.Second
)

// Notices reports the ends of a process's tasks. A nil Notices reports nothing.
type Notices struct {
	secrets *secrets.Current
	log     zerolog.Logger
	rules   atomic.Pointer[Rules]

	ctx  context.Context // bounds the notices that are being sent
	stop func()
	all  sync.WaitGroup

	mu     sync.Mutex
	closed bool
}

// New makes Notices without rules. hidden holds what they must not show.
func New(hidden *secrets.Current, log zerolog.Logger) *Notices {
	n := &Notices{secrets: hidden, log: log}
	ctx, stop := context.WithCancelCause(log.WithContext(context.Background()))
	n.ctx, n.stop = ctx, func() { stop(errors.New("runnel ends")) }
	return n
}

// Replace replaces the rules.
func (n *Notices) Replace(rules *Rules) {
	n.rules.Store(rules)
}

// Rules returns the present rules.
func (n *Notices) Rules() *Rules {
	if n == nil {
		return nil
	}
	return n.rules.Load()
}

// Tell reports a task that has ended, if a rule says so. It does not wait for the delivery.
func (n *Notices) Tell(t *tasks.Task) {
	rule := n.Rules().of(t.Tool)
	if !rule.wants(t) {
		return
	}
	told := newNotice(t, n.secrets.Set())
	for _, w := range rule.ways {
		if n.loses(w, told) {
			n.log.Warn().Str("taskId", t.ID).Str("notify", w.name).
				Msg("a notice is lost: too many wait, or runnel ends; others are not logged until none waits")
		}
	}
}

// loses queues a notice for its way. It reports whether the notice is lost and is the first one lost since
// the queue was empty.
func (n *Notices) loses(w *way, told *notice) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.closed || len(w.waiting) >= maxWaiting:
		first := !w.loses
		w.loses = true
		return first
	case !w.busy:
		w.busy, w.loses = true, false
		n.all.Go(func() { n.run(w) })
	}
	w.waiting = append(w.waiting, told)
	return false
}

// run sends the notices that wait for a way, until none is left.
func (n *Notices) run(w *way) {
	for {
		n.mu.Lock()
		if left := len(w.waiting); left == 0 || n.ctx.Err() != nil {
			w.busy = false
			n.mu.Unlock()
			if left > 0 {
				n.log.Warn().Str("notify", w.name).Int("lost", left).Msg("notices are lost: runnel ends")
			}
			return
		}
		next := w.waiting[0]
		w.waiting = w.waiting[1:]
		before := w.failed
		n.mu.Unlock()
		err := w.tell(n.ctx, next)
		if err != nil && !before {
			n.log.Warn().Err(err).Str("taskId", next.Task).Str("notify", w.name).
				Msg("a notice was not delivered; others that fail like this are not logged")
		}
		n.mu.Lock()
		w.failed = err != nil
		n.mu.Unlock()
	}
}

// Close gives notices that are being sent some time, and returns when nothing of them is left.
func (n *Notices) Close() {
	if n == nil {
		return
	}
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	defer time.AfterFunc(closeGrace, n.stop).Stop()
	n.all.Wait()
	n.stop()
}

// notice describes the end of a task, or what one that goes on has found in its output. Its JSON is what a
// url gets.
type notice struct {
	Task    string  `json:"task"`
	Tool    string  `json:"tool"`
	Status  string  `json:"status"`
	Seconds float64 `json:"seconds"`
	Message string  `json:"message"` // one line: why it failed, or the last line of its output
	Host    string  `json:"host"`

	took time.Duration
}

const (
	maxMessage = 300     // bytes: a desktop shows about two lines
	maxTool    = 128     // bytes: names of runnel's own tools are not longer
	maxLine    = 4 << 10 // bytes at the end of a result that are searched for its last line
)

func newNotice(t *tasks.Task, hidden *secrets.Set) *notice {
	took := t.UpdatedAt.Sub(t.CreatedAt)
	host, _ := os.Hostname() // "" if it is unknown
	clean := func(s string, most int) string {
		return shorten.Clip(strings.TrimSpace(text.Printable(string(text.StripANSI([]byte(hidden.String(s)))))), most)
	}
	status := string(t.Status)
	if !t.Status.Terminal() {
		status = config.OnMatch
	}
	return &notice{
		Task: t.ID, Tool: clean(t.Tool, maxTool), Status: status,
		Seconds: math.Round(took.Seconds()*1000) / 1000, Message: clean(message(t), maxMessage), Host: host,
		took: took,
	}
}

// message returns why a task failed, with its last line of output; what one that goes on has found; for any
// other task, the last line of its result.
func message(t *tasks.Task) string {
	if !t.Status.Terminal() {
		return t.Matches.Message()
	}
	if said := lines(t.StatusMessage); len(said) > 1 {
		return said[0] + ": " + said[len(said)-1]
	} else if len(said) == 1 {
		return said[0]
	}
	if t.Outcome == nil || t.Outcome.Result == nil {
		return ""
	}
	for _, item := range slices.Backward(t.Outcome.Result.Content) {
		s, _ := mcp.TextOf(item)
		if said := lines(s[max(len(s)-maxLine, 0):]); len(said) > 0 {
			return said[len(said)-1]
		}
	}
	return ""
}

// lines returns the lines of a text that are not blank, as a terminal would show them.
func lines(s string) (list []string) {
	for line := range strings.Lines(text.LastLines([]byte(s), len(s))) {
		if line = strings.TrimSpace(line); line != "" {
			list = append(list, line)
		}
	}
	return list
}

// title returns the notice in a few words. It never begins with words of a stranger.
func (n *notice) title() string {
	ended := map[string]string{"completed": "completed", "failed": "failed", "cancelled": "was cancelled",
		config.OnMatch: "has a match"}[n.Status]
	return "runnel: " + n.Tool + " " + ended + " after " + text.Seconds(n.took)
}

// statusVariable is set only for the commands of notices.
const statusVariable = "RUNNEL_TASK_STATUS"

// variables returns the notice as variables for a command.
func (n *notice) variables() map[string]string {
	return map[string]string{
		"RUNNEL_TASK_ID":      n.Task,
		"RUNNEL_TASK_TOOL":    n.Tool,
		statusVariable:        n.Status,
		"RUNNEL_TASK_SECONDS": strconv.FormatFloat(n.Seconds, 'f', -1, 64),
		"RUNNEL_TASK_MESSAGE": n.Message,
	}
}
