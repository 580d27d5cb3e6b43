package httpserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"runnel/internal/headers"
	"runnel/rpc/mcp"
)

const (
	// dialPatience is how long another front may take to accept a connection.
	dialPatience = 2 * time.Second
	// frontPatience is how long it may take to begin its answer, for which it needs eventsAfter at most.
	frontPatience = 10 * time.Second
)

// newFronts makes what sends requests to other fronts, each on a connection of its own: on one that was kept,
// a front that has just ended looks like one that has died while it served the request, which must not be
// served twice.
func newFronts() *http.Transport {
	return &http.Transport{
		DialContext:           (&net.Dialer{Timeout: dialPatience}).DialContext,
		TLSHandshakeTimeout:   dialPatience,
		ResponseHeaderTimeout: frontPatience,
		DisableKeepAlives:     true,
		DisableCompression:    true,
	}
}

// outcome is what became of a request that was passed on.
type outcome int

const (
	answered outcome = iota
	refused          // the other front does not have the session, or cannot be reached: it has done nothing
	silent           // it does not answer: the client has got an error, and should find the session here next
)

var errNotThere = errors.New("the front does not have the session")

// forward passes a request on to the front that has its session.
func (s *Server) forward(
	w http.ResponseWriter, r *http.Request, front string, id, body []byte,
) (became outcome) {
	base, err := url.Parse(front)
	if err != nil || base.Host == "" {
		return refused
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(base)
			p.Out.Host = p.In.Host // which the other front admits, or not, as this one does
			for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Proto"} {
				p.Out.Header[name] = p.In.Header[name]
			}
			p.Out.Header.Set(headers.Forwarded, "1")
			if body != nil {
				p.Out.Body, p.Out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			}
		},
		Transport:     s.fronts,
		FlushInterval: -1,
		ModifyResponse: func(answer *http.Response) error {
			if answer.StatusCode == http.StatusMisdirectedRequest {
				return errNotThere
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			dialing, ok := errors.AsType[*net.OpError](err)
			if err == errNotThere || ok && dialing.Op == "dial" {
				became = refused
				return
			}
			if r.Context().Err() == nil { // the client still waits
				became = silent
				s.o.Log.Warn().Err(err).Str("front", front).
					Msg("the front that has the session does not answer")
			}
			const silence = "the server that has the session does not answer: try again"
			refuse(w, http.StatusServiceUnavailable, id, mcp.CodeBusy, silence)
		},
	}
	// A stream lasts longer than sending a request may take.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	proxy.ServeHTTP(patient{w}, r)
	return became
}

// patient is a response that may last as long as its client reads: each write begins the time that it has.
type patient struct{ http.ResponseWriter }

func (p patient) Write(b []byte) (int, error) {
	_ = http.NewResponseController(p.ResponseWriter).SetWriteDeadline(time.Now().Add(writePatience))
	return p.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (p patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// takeOver makes this front the one that has a session, if the one that had it still counts as such.
func (s *Server) takeOver(ctx context.Context, key sessionKey, front string) {
	found, version, err := s.load(ctx, key)
	if err != nil || found.Front != front {
		return // find sees what there is
	}
	c := &session{sessionKey: key, stored: found, version: version}
	c.stored.Front = s.o.Advertise
	s.put(ctx, c)
	s.o.Log.Info().Str("owner", key.owner).Str("front", front).
		Msg("a session is taken over from a front that does not have it any more")
}
