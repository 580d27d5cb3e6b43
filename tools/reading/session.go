package reading

import (
	"sync"

	"runnel/rpc"
	"runnel/tasks"
	"runnel/tools/terminal"
	"runnel/tools/text"
)

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
