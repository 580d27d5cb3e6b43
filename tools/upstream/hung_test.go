package upstream

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"runnel/rpc"
	"runnel/tools/config"
)

// A server with one thread is at work while it has a call: one that talks is not pinged, and one that is
// silent is given up when it has been silent for a while and then left a ping unanswered.
func TestTalkingServerIsNotPinged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, client, say, pings := silent(t)
		def := &definition{times: defaultTimes, hungAfter: time.Second, log: zerolog.Nop()}
		go s.watch(client, def)
		time.Sleep(2*def.times.pingAfter - def.times.pingAfter/100) // just before a look
		defer s.owe()()
		began := time.Now()
		for range 10 {
			time.Sleep(def.times.pingAfter / 2)
			say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"1","progress":1}}`)
		}
		if err := client.Err(); err != nil || pings.Load() > 0 {
			t.Fatalf("%d pings, and after %v: %v", pings.Load(), time.Since(began), err)
		}
		began = time.Now()
		<-client.Context().Done()
		if after := time.Since(began); !errors.Is(client.Err(), errHung) || pings.Load() != 1 ||
			after < def.times.pingAfter || after > 2*def.times.pingAfter+def.hungAfter {
			t.Errorf("silent, it is given up after %v: %v", after, client.Err())
		}
	})
}

// By default, a server that is silent in a call is at work, however long it takes, and is not pinged: ping is
// optional, and a server with one thread answers none while it works.
func TestSilentServerIsAtWork(t *testing.T) {
	u, err := New("x", config.Upstream{Command: []string{"true"}}, config.Base{}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s, client, _, pings := silent(t)
		go s.watch(client, u.definition)
		for range 2 {
			paid := s.owe()
			time.Sleep(time.Hour)
			paid()
			if err := client.Err(); err != nil || pings.Load() > 0 {
				t.Errorf("%d pings, and after an hour: %v", pings.Load(), err)
			}
		}
	})
}

// silent is a connection to a server that answers initialize and no ping. say sends a line of the server's.
func silent(t *testing.T) (s *silence, client *rpc.Client, say func(line string), pings *atomic.Int32) {
	serverIn, in := io.Pipe()
	out, serverOut := io.Pipe()
	pings = &atomic.Int32{}
	say = func(line string) { _, _ = io.WriteString(serverOut, line+"\n") }
	go func() {
		for lines := bufio.NewScanner(serverIn); lines.Scan(); {
			var m struct {
				ID     json.RawMessage
				Method string
			}
			_ = json.Unmarshal(lines.Bytes(), &m)
			switch m.Method {
			case "initialize":
				say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"x","version":"1"}}}`, m.ID))
			case "ping":
				pings.Add(1)
			}
		}
	}()
	s = &silence{}
	client, err := rpc.Dial(t.Context(),
		rpc.DialOptions{In: in, Out: out, Version: "2025-06-18", OnMessage: func([]byte) { s.seen.Add(1) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return s, client, say, pings
}
