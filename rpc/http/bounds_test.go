package httpserver

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// ofOwners is a server with a token for each of some owners: their names eight times.
func ofOwners(t *testing.T, names ...string) *front {
	t.Helper()
	var text strings.Builder
	for _, name := range names {
		fmt.Fprintln(&text, strings.Repeat(name, 8), name)
	}
	tokens, err := ReadTokens(strings.NewReader(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, Options{Tokens: always(tokens)})
}

func as(name string) string { return "Authorization: Bearer " + strings.Repeat(name, 8) }

// An owner who opens sessions without end loses its own, idle ones first, and takes none from others.
func TestManySessions(t *testing.T) {
	t.Parallel()
	f := ofOwners(t, "alice", "bob", "carol")
	f.mu.Lock()
	f.limits = sessionLimits{owned: 6, all: 8}
	f.mu.Unlock()
	bobs := []string{f.open(as("bob")), f.open(as("bob"))}
	var alices []string
	for range 7 {
		alices = append(alices, f.open(as("alice")))
	}
	f.wants(404, "", "POST", ping, alices[0], as("alice"))
	carols := f.open(as("carol")) // one more than there may be of all
	f.wants(404, "", "POST", ping, alices[1], as("alice"))
	for _, session := range alices[2:] {
		f.wants(200, "", "POST", ping, session, as("alice"))
	}
	for _, session := range bobs {
		f.wants(200, "", "POST", ping, session, as("bob"))
	}
	f.wants(200, "", "POST", ping, carols, as("carol"))
	for _, session := range alices[2:] { // now none of them is idle
		f.do("GET", "", session, as("alice"))
	}
	f.wants(503, "too many sessions", "POST", initialize, as("carol"))
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.sessions) != 8 {
		t.Errorf("%d sessions", len(f.sessions))
	}
}

// An owner whose bodies are long and slow is refused more of them, and does not keep others out.
func TestLongBodiesOfAnOwner(t *testing.T) {
	t.Parallel()
	f := ofOwners(t, "alice", "bobby")
	held := func(name string) int64 {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.held[name]
	}
	slow := func(name string) (finish func() *http.Response) {
		body, in := io.Pipe()
		answered := make(chan *http.Response, 1)
		r, _ := http.NewRequestWithContext(t.Context(), "POST", f.url, body)
		header, value, _ := strings.Cut(as(name), ": ")
		r.Header.Set(header, value)
		r.Header.Set("Content-Type", "application/json")
		go func() {
			response, err := http.DefaultClient.Do(r)
			if err == nil {
				response.Body.Close()
			}
			answered <- response
			_ = body.Close()
		}()
		before := held(name)
		sent := make(chan struct{})
		go func() { // fails when it is refused
			defer close(sent)
			_, _ = io.WriteString(in, strings.Repeat(" ", f.o.MaxLine-1))
		}()
		for deadline := time.Now().Add(watchdog); held(name) < before+int64(f.o.MaxLine)-1 &&
			len(answered) == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("it is not read")
			}
		}
		return func() *http.Response {
			_ = in.Close()
			<-sent
			return <-answered
		}
	}
	first, second := slow("alice"), slow("alice")
	third := slow("alice")
	if r := third(); r == nil || r.StatusCode != 503 {
		t.Errorf("a third one: %v", r)
	}
	f.wants(200, "", "POST", initialize, as("bobby"))
	for _, finish := range []func() *http.Response{slow("bobby"), first, second} {
		if r := finish(); r == nil || r.StatusCode != 400 { // blanks are not a message
			t.Errorf("%v", r)
		}
	}
	if held("alice") != 0 {
		t.Errorf("%d bytes are held", held("alice"))
	}
}
