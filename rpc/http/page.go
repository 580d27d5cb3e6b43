package httpserver

import (
	"net/http"
	"strconv"
)

// Page is what a browser gets at the root, without a token: it contains no secrets. The token is in the
// fragment of its address, which browsers do not send.
type Page struct {
	HTML   []byte
	Policy string // its Content-Security-Policy
}

// show answers with the page.
func (s *Server) show(w http.ResponseWriter, r *http.Request) {
	if !s.guard.admits(w, r) {
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(s.o.Page.HTML)))
	h.Set("Content-Security-Policy", s.o.Page.Policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store") // the next runnel at this port may have another page
	_, _ = w.Write(s.o.Page.HTML)      // fails only when the reader has closed
}
