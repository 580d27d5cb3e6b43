package reading

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"runnel/internal/shorten"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tools/secrets"
	"runnel/tools/terminal"
	"runnel/tools/text"
)

// Reader reads one task, as it is now, for a session.
type Reader struct {
	Session    *Session
	Task       *tasks.Task
	Most       int          // bytes of text that an answer shows
	KeepFrames bool         // see text.Shaper
	Screen     [2]int       // the columns and rows of its terminal at first; zero = it has none
	Secrets    *secrets.Set // masked in what a screen shows; the log is masked already
	Poller     string       // the name of get_task_result in the model's list, "" if it is not there
}

// Reading is what an answer shows of a task.
type Reading struct {
	Text    string
	Content []mcp.ContentBlock // the rest of the result
	Place   Place              // where the next answer continues
	More    bool               // the text says how to continue
}

// Meta is what results about a task tell programs, in _meta.
type Meta struct {
	TaskID string         `json:"taskId"`
	Status mcp.TaskStatus `json:"status"`
	Next   int64          `json:"next"` // position in the log after the part that was shown
}

// shaper returns what shapes the shown part of the output, as its result would be shaped.
func (r *Reader) shaper(from int64) *text.Shaper {
	return &text.Shaper{Limit: r.Most, KeepFrames: r.KeepFrames, From: from}
}

// News is what came after a place: of much, the head and the tail; of a task that has a screen, the lines
// that have changed since the session was last shown some.
func (r *Reader) News(ctx context.Context, from Place) (got Reading, err error) {
	if r.HasScreen() {
		return r.screenNews(ctx, from)
	}
	shaper := r.shaper(from.Next)
	got.Place.Ended = r.Task.Status.Terminal()
	if got.Place.Next, err = shapeLog(ctx, shaper, r.Task, from.Next); err != nil {
		return got, err
	}
	if got.Place.Ended && !from.Ended {
		got.Content = writeEnding(shaper, r.Task)
	}
	// Gap is what this answer leaves out; if that is nothing, what earlier ones left out.
	words, gap := LeftOut(r.Poller, r.Task.ID), from.Gap
	shown, cut := shaper.Text(shaper.Limit, func(g text.Gap) string { gap = g; return words(g) })
	if !cut {
		gap = from.Gap
	}
	got.Text, got.Place.Gap = shown, gap
	return got, nil
}

// Page is what follows a position, as much as fits: a model that reads page after page reads all of it once.
// If an answer has left it out between a head and a tail, it ends where that tail began.
func (r *Reader) Page(ctx context.Context, after int64) (got Reading, err error) {
	page := &text.Page{Shaper: *r.shaper(after)}
	end := r.Task.Log.Size()
	last := r.Session.Place(r.Task.ID)
	if gap := last.Gap; gap.After <= after && after < gap.After+gap.Bytes {
		end = gap.After + gap.Bytes
		page.End = end
	}
	if _, err = shapeLog(ctx, page, r.Task, after); err != nil {
		return got, err
	}
	follows := func(next, end int64) string {
		return fmt.Sprintf("[... %d bytes follow: %s ...]", end-next, howToRead(r.Poller, r.Task.ID, next))
	}
	got.Text, got.Place.Next, got.More = page.Text(func(next int64) string { return follows(next, end) })
	switch size := r.Task.Log.Size(); {
	case page.End > 0:
		got.Place = last
		if got.More {
			return got, nil
		}
		again := fmt.Sprintf("they were shown before, \"after\": %d shows them again", end)
		got.Text += shorten.LeftOut(last.Next-end, "bytes", again)
		if got.More = size > last.Next || r.Task.Status.Terminal() && !last.Ended; got.More {
			got.Text += "\n" + follows(last.Next, size)
		}
		return got, nil
	case got.More || !r.Task.Status.Terminal():
		return got, nil
	}
	// The rest of the result has its own page if it does not fit.
	ending := r.shaper(end)
	content := writeEnding(ending, r.Task)
	if got.More = ending.Size() > page.Limit-page.Size(); got.More {
		got.Text += follows(end, end)
		return got, nil
	}
	rest, _ := ending.Text(ending.Limit, text.Gap.Words)
	got.Text += rest
	got.Content = content
	got.Place.Ended = true
	return got, nil
}

// maxSearch is how long a search may take. After the longest wait for a task it stays below the 60 s after
// which some hosts give up.
const maxSearch = 10 * time.Second

var errGrep = fmt.Errorf("searching the output takes more than %v: use a simpler grep, or after and tail "+
	"without it", maxSearch)

// Search selects lines of the output after a position. It does not count as reading.
func (r *Reader) Search(ctx context.Context, lines *text.Filter, after int64) (got Reading, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, maxSearch, errGrep)
	defer cancel()
	shaper := r.shaper(after)
	lines.To = shaper
	if _, err = shapeLog(ctx, lines, r.Task, after); err != nil {
		return got, err
	}
	if r.Task.Status.Terminal() {
		writeEnding(lines, r.Task)
	}
	lines.End()
	got.Text, _ = shaper.Text(shaper.Limit, text.Gap.Words) // positions in the selected lines mean nothing
	got.Place = r.Session.Place(r.Task.ID)
	return got, nil
}

// Remember lets an answer begin with what the tool has found in its output since the last one, and makes the
// next answer continue after it.
func (r *Reader) Remember(got *Reading) {
	got.Text = Found(r.Task.Matches, r.Session.Place(r.Task.ID).Seen, r.Most) + got.Text
	got.Place.Seen = r.Task.Matches
	r.Session.Set(r.Task.ID, got.Place)
}

// HasScreen reports whether the task has a terminal.
func (r *Reader) HasScreen() bool { return r.Screen != [2]int{} }

// OnScreen calls look with the screen of the task as its log has it now.
func (r *Reader) OnScreen(ctx context.Context, look func(screen *terminal.SeenScreen)) error {
	return r.Session.screens.On(ctx, r.Task.ID, r.Task.Log, r.Screen[0], r.Screen[1], r.Most, look)
}

func (r *Reader) screenNews(ctx context.Context, from Place) (got Reading, err error) {
	got.Place.Ended = r.Task.Status.Terminal()
	err = r.OnScreen(ctx, func(screen *terminal.SeenScreen) {
		got.Text, got.Place.Next = r.Secrets.String(screen.News(r.Most)), screen.Next
	})
	if err == nil && got.Place.Ended && !from.Ended {
		ending := r.shaper(got.Place.Next)
		got.Content = writeEnding(ending, r.Task)
		said, _ := ending.Text(ending.Limit, nil)
		got.Text += said
	}
	if strings.HasSuffix(got.Text, "\n") && !got.Place.Ended { // a prompt is not a whole line
		got.Text = got.Text[:len(got.Text)-1]
	}
	return got, err
}

// Session is what a client has been shown of its tasks: the positions up to which it has read their output,
// and the screens of those that have one. Each screen knows which of its lines were shown.
type Session struct {
	screens terminal.Screens

	mu     sync.Mutex
	places map[string]Place
	oldest []string
}

// Place is where the reading of a task continues.
type Place struct {
	Next  int64
	Seen  tasks.Matches // what was shown of what the tool has found in its output
	Ended bool          // the rest of the result, beyond the output, was shown as well
	Gap   text.Gap      // what the last answer left out that did not show all
}

type sessionKey struct{}

// Of returns the Session of a client, which knows what the client was shown.
func Of(c *rpc.Caller) *Session {
	return c.SessionValue(sessionKey{}, func() any { return &Session{places: map[string]Place{}} }).(*Session)
}

// maxPlaces is how many tasks' positions a session keeps. The output of an older one starts again from its
// beginning.
const maxPlaces = 1000

// Place returns where the reading of a task continues.
func (s *Session) Place(id string) Place {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.places[id]
}

// Set sets where the reading of a task continues.
func (s *Session) Set(id string, p Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.places[id]; !known {
		if s.oldest = append(s.oldest, id); len(s.oldest) > maxPlaces {
			delete(s.places, s.oldest[0])
			s.oldest = s.oldest[1:]
		}
	}
	s.places[id] = p
}
