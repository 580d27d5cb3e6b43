package upstream

import (
	"runnel/rpc/mcp"
	"runnel/tools/text"
)

// streamed is the content that came while a call ran, for a result that does not repeat it (PR #383). Texts are joined, and lose
// their middle where they are long; so do all of them together, in a result.
type streamed struct {
	content []mcp.ContentBlock
	size    int
	text    *text.Shaper // the last item, if it is a text
}

func (s *streamed) add(items []mcp.ContentBlock) {
	for _, item := range items {
		t, ok := mcp.TextOf(item)
		switch {
		case ok && s.text == nil:
			s.text = &text.Shaper{Limit: mcp.MaxContent, KeepFrames: true}
			fallthrough
		case ok:
			_, _ = s.text.Write([]byte(t)) // never fails
		case s.size < mcp.MaxContent: // what is behind would not fit into a result
			s.flush()
			s.content, s.size = append(s.content, item), s.size+len(item)
		}
	}
}

func (s *streamed) flush() {
	if s.text == nil {
		return
	}
	t, _ := s.text.Text(s.text.Limit, text.LeftOut)
	s.content, s.size, s.text = append(s.content, mcp.Text(t)), s.size+len(t), nil
}

// all is the content; nothing may be added behind it.
func (s *streamed) all() []mcp.ContentBlock {
	s.flush()
	return s.content
}
