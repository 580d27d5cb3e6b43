package tools

import (
	"context"
	"slices"
	"strings"
	"sync"

	"runnel/partials"
	"runnel/rpc"
	"runnel/tasks"
	"runnel/tools/terminal"
)

// screens are the terminals that a session looks at: each reads the log of a task, and knows which of its lines the
// session has been shown.
type screens struct {
	mu   sync.Mutex // held while one reads its log
	list []*seenScreen
}

type seenScreen struct {
	*terminal.Screen
	id   string
	next int64 // how far it has read the log
}

const (
	// maxScreens is how many of them a session has; they take some 5 MB each. The one that was used longest ago is
	// made again when it is used again, and then all that it shows is new.
	maxScreens = 4
	// maxReplay is how much of the end of a log a new screen reads, in bytes: a program that has printed more has
	// drawn its screen again since.
	maxReplay = 1 << 20
)

type screensKey struct{}

func screensOf(c *rpc.Caller) *screens {
	return c.SessionValue(screensKey{}, func() any { return &screens{} }).(*screens)
}

// onScreen calls look with the screen of a task as its log has it now.
func (s *service) onScreen(ctx context.Context, c *rpc.Caller, t *tasks.Task,
	look func(screen *seenScreen)) error {
	all := screensOf(c)
	all.mu.Lock()
	defer all.mu.Unlock()
	at := slices.IndexFunc(all.list, func(seen *seenScreen) bool { return seen.id == t.ID })
	if at < 0 {
		size := s.traitsOf(t).Screen
		if at = len(all.list); at == maxScreens {
			all.list, at = slices.Delete(all.list, 0, 1), maxScreens-1
		}
		all.list = append(all.list, &seenScreen{Screen: terminal.NewScreen(size[0], size[1], nil), id: t.ID,
			next: max(0, t.Log.Size()-maxReplay)})
	}
	screen := all.list[at]
	all.list = append(slices.Delete(all.list, at, at+1), screen)
	most := s.mostOf(c, t)
	for screen.next < t.Log.Size() {
		batch, end, err := t.Log.ReadAt(ctx, screen.next, logPiece)
		if err != nil {
			return err
		}
		if words := partials.LostWords(batch.Start - screen.next); batch.Start > screen.next {
			screen.Write([]byte(words), most)
		}
		for _, chunk := range batch.Chunks() {
			screen.Write(chunk.Data, most)
		}
		if end <= screen.next {
			break
		}
		screen.next = end
	}
	look(screen)
	return nil
}

// screenNews is news of a task that has a screen: the lines that have changed since the session was last shown some.
func (s *service) screenNews(ctx context.Context, c *rpc.Caller, t *tasks.Task,
	from taskPlace) (r reading, err error) {
	r.place.ended = t.Status.Terminal()
	err = s.onScreen(ctx, c, t, func(screen *seenScreen) {
		r.text, r.place.next = s.runner.Secrets().String(screen.News(s.mostOf(c, t))), screen.next
	})
	if err == nil && r.place.ended && !from.ended {
		ending := s.shaper(c, t, r.place.next)
		r.content = writeEnding(ending, t)
		said, _ := ending.Text(ending.Limit, nil)
		r.text += said
	}
	if strings.HasSuffix(r.text, "\n") && !r.place.ended { // a prompt is not a whole line
		r.text = r.text[:len(r.text)-1]
	}
	return r, err
}
