// Package modeltest has a provider of language models that says what a script says: the four APIs that
// package model speaks, with the events that the real ones send, and their faults.
package modeltest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"runnel/internal/pause"
)

// Answer is what the provider says to one request.
type Answer struct {
	Tokens []string // pieces of the text
	Calls  []Call   // of tools, after the text
	Images [][]byte // pictures, after the text; only of chat completions and Responses
	Pace   time.Duration
	Stop   string // why it stops, as the API has it; "" = it is at its end

	Input, Output int // tokens, as it counts them; Output 0 = one for each piece

	Status  int // other than 200 and 0: a refusal, with Says
	Header  map[string]string
	Says    string        // the body of a refusal
	Fault   string        // an event that comes after the text, instead of the end
	CutAt   int           // the connection is lost after so many bytes; 0 = it is not
	Silence bool          // nothing comes after the text, or after Says, and the connection stays
	Beats   time.Duration // Fault comes again and again, so often, until the client closes the connection
	Stays   bool          // the connection stays after the end
}

// Call is a call of a tool.
type Call struct{ ID, Name, Arguments string }

// Request is what was asked.
type Request struct {
	Path   string
	Header http.Header
	Body   map[string]any
	Text   string // the body
}

// Endpoint is a provider. It gives its answers in turn, the last one again and again.
type Endpoint struct {
	Answers []Answer

	mu       sync.Mutex
	requests []Request
	ended    int
}

// Requests returns what was asked, in order.
func (e *Endpoint) Requests() []Request {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]Request(nil), e.requests...)
}

// Ended returns how many requests have ended, because they were answered or their client has closed them.
func (e *Endpoint) Ended() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ended
}

// ServeHTTP answers a request.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	body := map[string]any{}
	_ = json.Unmarshal(text, &body) // a test looks at what is there
	e.mu.Lock()
	e.requests = append(e.requests, Request{r.URL.Path, r.Header, body, string(text)})
	answer := e.Answers[min(len(e.requests), len(e.Answers))-1]
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		e.ended++
		e.mu.Unlock()
	}()
	for name, value := range answer.Header {
		w.Header().Set(name, value)
	}
	if answer.Status != 0 && answer.Status != http.StatusOK {
		w.WriteHeader(answer.Status)
		_, _ = io.WriteString(w, answer.Says)
		if answer.Silence {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
		return
	}
	var spell func(*Answer) (before, pieces, after []string)
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/v1/messages"):
		spell = anthropic
	case strings.HasSuffix(path, "/chat/completions"):
		spell = chat
	case strings.HasSuffix(path, "/responses"):
		spell = responses
	case strings.HasSuffix(path, "/api/chat"):
		spell = ollama
	default:
		http.NotFound(w, r)
		return
	}
	kind := "text/event-stream; charset=utf-8"
	if strings.HasSuffix(r.URL.Path, "/api/chat") {
		kind = "application/x-ndjson"
	}
	w.Header().Set("Content-Type", kind)
	if answer.Output == 0 {
		answer.Output = len(answer.Tokens)
	}
	out := &cutter{w: w, left: answer.CutAt}
	before, pieces, after := spell(&answer)
	out.write(before...)
	for _, piece := range pieces {
		if answer.Pace > 0 {
			if !pause.For(r.Context(), answer.Pace) {
				return
			}
		}
		out.write(piece)
	}
	switch {
	case answer.Silence:
		<-r.Context().Done()
	case answer.Fault != "":
		out.write(answer.Fault)
		for answer.Beats > 0 && pause.For(r.Context(), answer.Beats) {
			out.write(answer.Fault)
		}
	default:
		out.write(after...)
		if answer.Stays {
			<-r.Context().Done()
		}
	}
}

// cutter writes events, each as soon as it is there, until the connection is to be lost.
type cutter struct {
	w    http.ResponseWriter
	left int // bytes until then; 0 = it is not
}

func (c *cutter) write(events ...string) {
	for _, event := range events {
		if c.left > 0 && len(event) >= c.left {
			_, _ = io.WriteString(c.w, event[:c.left])
			c.w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		if c.left > 0 {
			c.left -= len(event)
		}
		_, _ = io.WriteString(c.w, event)
		c.w.(http.Flusher).Flush()
	}
}

// quote writes a text as JSON.
func quote(s string) string {
	b, _ := json.Marshal(s) // never fails for a string
	return string(b)
}

// named is an event with its name, unnamed one without.
func named(name, format string, args ...any) string {
	return "event: " + name + "\ndata: " + fmt.Sprintf(format, args...) + "\n\n"
}

func unnamed(format string, args ...any) string {
	return "data: " + fmt.Sprintf(format, args...) + "\n\n"
}
