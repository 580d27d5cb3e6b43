package tools

import (
	"context"
	"strings"

	"runnel/rpc"
	"runnel/tasks"
	"runnel/tools/terminal"
)

type screensKey struct{}

// onScreen calls look with the screen of a task as its log has it now. A session has its own screens: each
// knows which of its lines the session has been shown.
func (s *service) onScreen(ctx context.Context, c *rpc.Caller, t *tasks.Task,
	look func(screen *terminal.SeenScreen)) error {
	all := c.SessionValue(screensKey{}, func() any { return &terminal.Screens{} }).(*terminal.Screens)
	size := s.traitsOf(t).Screen
	return all.On(ctx, t.ID, t.Log, size[0], size[1], s.mostOf(c, t), look)
}

// screenNews is news of a task that has a screen: the lines that have changed since the session was last
// shown some.
func (s *service) screenNews(ctx context.Context, c *rpc.Caller, t *tasks.Task,
	from taskPlace) (r reading, err error) {
	r.place.ended = t.Status.Terminal()
	err = s.onScreen(ctx, c, t, func(screen *terminal.SeenScreen) {
		r.text, r.place.next = s.runner.Secrets().String(screen.News(s.mostOf(c, t))), screen.Next
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
