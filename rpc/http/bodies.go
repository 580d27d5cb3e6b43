package httpserver

import "fmt"

const (
	// bodies limits the bodies in flight of all owners together, in bodies of the greatest length.
	bodies = 4
	// bodiesOfOwner is the same limit for one owner, so that there is room for others.
	bodiesOfOwner = 2
	// bodyRoom is how many bytes an owner may always hold: most requests fit into it, whatever others send.
	bodyRoom = 64 << 10
)

// holdBytes counts more bytes of a body in flight, of which before bytes were counted already, and returns a
// problem if there are too many. The bytes count in any case, until freeBytes.
func (s *Server) holdBytes(owner string, before, more int64) (problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[owner] += more
	s.heldInAll += more
	body, all := before+more, s.held[owner]
	switch limit := int64(s.o.MaxLine); {
	case all <= bodyRoom || s.heldInAll == body: // a body may have any length if it is the only one
	case all > limit*bodiesOfOwner && all > body:
		return fmt.Sprintf("your requests in flight are too large together: the limit is %d bytes",
			limit*bodiesOfOwner)
	case s.heldInAll > limit*bodies:
		return "the requests in flight are too large together: try again"
	}
	return ""
}

// freeBytes stops counting bytes that are no longer held.
func (s *Server) freeBytes(owner string, held int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heldInAll -= held
	if s.held[owner] -= held; s.held[owner] == 0 {
		delete(s.held, owner)
	}
}
