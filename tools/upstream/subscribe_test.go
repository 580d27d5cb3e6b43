package upstream

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/rs/zerolog"

	"runnel/rpc"
)

// listenable starts a server of the stateless era. It tells the ids of requests to listen, and which of them
// are cancelled.
func listenable(t *testing.T) (client *rpc.Client, asked, cancelled chan string) {
	lines, in := io.Pipe()
	out, answers := io.Pipe()
	asked, cancelled = make(chan string, 10), make(chan string, 10)
	go func() { // ends with the pipe
		defer answers.Close()
		for scanner := bufio.NewScanner(lines); scanner.Scan(); {
			var m struct {
				ID     json.RawMessage
				Method string
				Params struct{ RequestID json.RawMessage }
			}
			_ = json.Unmarshal(scanner.Bytes(), &m)
			switch m.Method {
			case "server/discover":
				fmt.Fprintf(answers, `{"jsonrpc":"2.0","id":%s,"result":{"supportedVersions":["2026-07-28"],"capabilities":{}}}`+"\n", m.ID)
			case "subscriptions/listen":
				asked <- string(m.ID)
			case "notifications/cancelled":
				cancelled <- string(m.Params.RequestID)
			}
		}
	}()
	client, err := rpc.Dial(t.Context(), rpc.DialOptions{In: in, Out: out})
	if err != nil {
		t.Fatal(err)
	}
	return client, asked, cancelled
}

// A resource that somebody begins to listen to while its server connects may be asked for twice. One of them
// goes on, until nobody listens.
func TestSubscriptionIsRenewed(t *testing.T) {
	client, asked, cancelled := listenable(t)
	defer client.Close()
	s := &subscriptions{log: zerolog.Nop(), byURI: map[string]*subscription{}}
	stop, err := s.add(t.Context(), client, "a://b", func(json.RawMessage) {})
	if err != nil {
		t.Fatal(err)
	}
	first := <-asked
	s.renew(client)
	second := <-asked
	stop()
	if got := []string{<-cancelled, <-cancelled}; !slices.Contains(got, first) ||
		!slices.Contains(got, second) {
		t.Errorf("%q are cancelled, not %q and %q", got, first, second)
	}
}

// Somebody who began to listen on a connection that another one has replaced meanwhile does not end what goes
// on there.
func TestSubscriptionOfTheOldConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		older, _, _ := listenable(t)
		defer older.Close()
		newer, asked, cancelled := listenable(t)
		defer newer.Close()
		s := &subscriptions{log: zerolog.Nop(), byURI: map[string]*subscription{"a://b": {}}}
		s.renew(newer)
		synctest.Wait()
		if err := s.ask(t.Context(), older, "a://b"); err != nil { // add, where renew overtakes it
			t.Fatal(err)
		}
		synctest.Wait()
		if len(asked) != 1 || len(cancelled) != 0 {
			t.Errorf("asked for %d times, cancelled %d times", len(asked), len(cancelled))
		}
	})
}

// A server that refuses a subscription refuses it to each of those who ask at the same time.
func TestSubscriptionIsRefusedToAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines, in := io.Pipe()
		out, answers := io.Pipe()
		answer := make(chan struct{})
		go func() { // ends with the pipe
			defer answers.Close()
			for scanner := bufio.NewScanner(lines); scanner.Scan(); {
				var m struct {
					ID     json.RawMessage
					Method string
				}
				_ = json.Unmarshal(scanner.Bytes(), &m)
				said := `"error":{"code":-32002,"message":"no such resource"}`
				switch m.Method {
				case "initialize":
					said = `"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}`
				case "resources/subscribe":
					<-answer
				}
				if m.ID != nil {
					fmt.Fprintf(answers, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, said)
				}
			}
		}()
		client, err := rpc.Dial(t.Context(), rpc.DialOptions{In: in, Out: out, Version: "2025-11-25"})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		s := &subscriptions{log: zerolog.Nop(), byURI: map[string]*subscription{}}
		errs := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := s.add(t.Context(), client, "a://b", func(json.RawMessage) {})
				errs <- err
			}()
			synctest.Wait()
		}
		close(answer)
		for range 2 {
			if err := <-errs; err == nil {
				t.Error("a subscription that the server has refused is taken")
			}
		}
	})
}
