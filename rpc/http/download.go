package httpserver

import (
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"
	"time"

	"runnel/rpc/mcp"
)

// File is a file that a task has made.
type File struct {
	Name     string // relative, with slashes
	MIMEType string
	SHA256   string // in hexadecimal
	Content  io.ReadSeeker
}

// filePath is where the files of tasks are, for clients with a token: /tasks/ID/files/NAME.
const filePath = "GET /tasks/{id}/files/{name...}"

// download answers with a file, or with a range of it. It is an attachment with a policy that allows nothing:
// a command has made it, and a browser must not run what it says.
func (s *Server) download(rw http.ResponseWriter, r *http.Request) {
	w, began := &statusWriter{ResponseWriter: rw, streams: &s.streams}, time.Now()
	owner := ""
	defer func() {
		s.o.Log.Info().Str("method", r.Method).Str("call", "a file").Int("status", w.status).
			Dur("took", time.Since(began)).
			Str("owner", owner).Str("from", s.o.Proxies.client(r)).Msg("http request")
	}()
	if !s.guard.admits(w, r) {
		return
	}
	owner, ok := s.admit(w, r)
	if !ok {
		return
	}
	if problem := s.enter(owner); problem != "" {
		refuse(w, http.StatusServiceUnavailable, nil, mcp.CodeBusy, problem)
		return
	}
	defer s.leave(owner)
	served, err := s.o.Serves(owner)
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, nil, mcp.CodeBusy, err.Error())
		return
	}
	if served.File == nil {
		refuse(w, http.StatusNotFound, nil, mcp.CodeInvalidRequest, "no files are served here")
		return
	}
	file, err := served.File(r.Context(), r.PathValue("id"), r.PathValue("name"))
	if err != nil {
		refuse(w, http.StatusInternalServerError, nil, mcp.CodeInternalError, err.Error())
		return
	}
	if file == nil {
		refuse(w, http.StatusNotFound, nil, mcp.CodeInvalidRequest, "the file is unknown or has expired")
		return
	}
	h := w.Header()
	h.Set("Content-Type", file.MIMEType)
	h.Set("Content-Disposition", mime.FormatMediaType("attachment",
		map[string]string{"filename": path.Base(file.Name)}))
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "private, no-store")
	h.Set("ETag", `"`+file.SHA256+`"`)
	http.ServeContent(unhurried{w}, r, "", time.Time{}, file.Content)
}

// unhurried gives a client time for each piece and not for the whole: a file may be long.
type unhurried struct{ *statusWriter }

func (w unhurried) Write(p []byte) (int, error) {
	if w.admitted != nil && !w.admitted() { // the token was revoked
		return 0, http.ErrAbortHandler
	}
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(writePatience))
	return w.statusWriter.Write(p)
}

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
