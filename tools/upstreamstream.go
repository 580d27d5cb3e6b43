package tools

import "runnel/rpc/mcp"

// streamed is the content that came while a call ran, for a result that does not repeat it (PR #383). Texts are joined, and lose
// their middle where they are long; so do all of them together, in a result.
type streamed struct {
	content []mcp.ContentBlock
	size    int
	text    *excerpt // the last item, if it is a text
}

func (s *streamed) add(items []mcp.ContentBlock) {
	for _, item := range items {
		text, ok := mcp.TextOf(item)
		switch {
		case ok && s.text == nil:
			s.text = &excerpt{max: int(DefaultMaxResult)}
			fallthrough
		case ok:
			s.text.add([]byte(text))
		case s.size < maxContent: // what is behind would not fit into a result
			s.flush()
			s.content, s.size = append(s.content, item), s.size+len(item)
		}
	}
}

func (s *streamed) flush() {
	if s.text == nil {
		return
	}
	text, _ := s.text.text(s.text.max)
	s.content, s.size, s.text = append(s.content, mcp.Text(text)), s.size+len(text), nil
}

// all is the content; nothing may be added behind it.
func (s *streamed) all() []mcp.ContentBlock {
	s.flush()
	return s.content
}
