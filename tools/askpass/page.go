package askpass

import (
	"context"
	"crypto/rand"
	"fmt"
	"html"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"golang.org/x/net/netutil"

	httpserver "runnel/rpc/http"
)

const (
	// maxPassword is the length limit of a password, in bytes: a terminal takes lines of 4 KiB at most.
	maxPassword = 1 << 10
	// maxForm is the length limit of what a browser sends, in bytes: every byte of a password may be escaped.
	maxForm = 4 * maxPassword
	// maxConnections is how many browsers a page serves at once. Other users of the machine can connect, too.
	maxConnections = 8
	// patience is how long a browser may take for each request: it is on this machine.
	patience = 10 * time.Second
)

// Page is a page that takes one password. Open returns it.
type Page struct {
	URL string // gives access to the page: only the client gets it

	server   *http.Server
	question string // what the page says above the field
	taken    atomic.Bool
	password chan string // capacity 1
}

// Open opens a page. The question is shown as text, in lines of its own.
func Open(question string) (*Page, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serving a page for a password: %w", err)
	}
	path := "/" + rand.Text()
	p := &Page{URL: "http://" + listener.Addr().String() + path, question: question,
		password: make(chan string, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+path, p.show)
	mux.HandleFunc("POST "+path, p.take)
	p.server = &http.Server{Handler: httpserver.Guarded(listener.Addr(), mux), ReadTimeout: patience,
		WriteTimeout: patience, MaxHeaderBytes: maxForm,
		ErrorLog: log.New(io.Discard, "", 0)} // browsers break off connections
	go func() { _ = p.server.Serve(netutil.LimitListener(listener, maxConnections)) }() // until Close
	return p, nil
}

// Password receives the password, once.
func (p *Page) Password() <-chan string { return p.password }

// Close closes the page. An answer that is being written has a moment to arrive.
func (p *Page) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if p.server.Shutdown(ctx) != nil {
		_ = p.server.Close()
	}
}

// show answers with the form.
func (p *Page) show(w http.ResponseWriter, _ *http.Request) { p.write(w, http.StatusOK, "", true) }

// take takes the password that a browser sends.
func (p *Page) take(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	unread := r.ParseForm()
	password := r.PostForm.Get("password")
	if unread != nil || !r.PostForm.Has("password") || len(password) > maxPassword ||
		strings.ContainsFunc(password, unicode.IsControl) {
		p.write(w, http.StatusBadRequest, fmt.Sprintf("At most %d bytes, and no control characters.",
			maxPassword), true)
		return
	}
	if !p.taken.CompareAndSwap(false, true) {
		p.write(w, http.StatusGone, "One has been typed already. You can close this page.", false)
		return
	}
	p.write(w, http.StatusOK, "It is being typed. You can close this page.", false)
	p.password <- password
}

// write writes the page, with a note, and with the form if something can be typed.
func (p *Page) write(w http.ResponseWriter, status int, note string, form bool) {
	nonce := rand.Text()
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'nonce-"+nonce+
		"'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer the form's Origin would be null, which is refused
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	fields := ""
	if form {
		fields = `<form method="post"><input type="password" name="password" aria-label="password" autocomplete="off" autofocus>` +
			` <button>Type it</button></form>`
	}
	_, _ = fmt.Fprintf(w, page, nonce, html.EscapeString(p.question), fields, html.EscapeString(note))
}

// page is the page's HTML: a nonce, the question, the form, a note.
const page = `<!doctype html><html lang="en"><meta charset="utf-8"><title>runnel: a password</title>
<style nonce="%s">body{font:1rem system-ui;max-width:40em;margin:15vh auto;padding:0 1em;color-scheme:light dark}
p{white-space:pre-wrap;overflow-wrap:anywhere}input,button{font:inherit;padding:.4em}</style>
<p>%s</p>%s<p>%s</p></html>
`
