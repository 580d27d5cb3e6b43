package httpserver

import "fmt"

const (
	// bodies is how many longest bodies may be in flight together, of all owners.
	bodies = 4
	// bodiesOfOwner is how many those of one owner may be, so that another one's have room.
	bodiesOfOwner = 2
	// bodyRoom is how many bytes an owner always has: most requests fit into it, whatever others send.
	bodyRoom = 64 << 10
)

// hold counts bytes more of a body in flight, of which so many were held before, unless there are too many. They count in any case, until they
// are let go.
func (s *Server) hold(owner string, before, more int64) (problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[owner] += more
	s.heldInAll += more
	body, all := before+more, s.held[owner]
	switch limit := int64(s.o.MaxLine); {
	case all <= bodyRoom || s.heldInAll == body: // the only one there is may have any length
	case all > limit*bodiesOfOwner && all > body:
		return fmt.Sprintf("your requests in flight are too large together: the limit is %d bytes", limit*bodiesOfOwner)
	case s.heldInAll > limit*bodies:
		return "the requests in flight are too large together: try again"
	}
	return ""
}

// letGo counts bytes that are held no more.
func (s *Server) letGo(owner string, held int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heldInAll -= held
	if s.held[owner] -= held; s.held[owner] == 0 {
		delete(s.held, owner)
	}
}
