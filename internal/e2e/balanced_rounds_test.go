//go:build linux

package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Rounds of faults of two fronts behind a balancer: the one that has a client's session is killed or stands
// still while a worker's output streams to the client, which goes on by the other front. make fleet plays
// RUNNEL_FLEET_ROUNDS; otherwise it is one kill, since what stands still is noticed after 10 s.
func TestFrontRounds(t *testing.T) {
	t.Parallel()
	rounds := 1
	if text := os.Getenv(fleetRoundsVariable); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", fleetRoundsVariable, err)
		}
	}
	c := newCrew(t, `
tools:
  lines: {shell: 'for i in 1 2 3 4 5 6 7 8 9; do echo line $i; sleep 0.2; done', runs: builds}
`)
	c.work("one", "--slots", "8")
	b := newBalanced(t, c.env, c.config...)
	for n := range rounds {
		client, has := b.has(t)
		client.patient = true
		front := b.fronts[has]
		b.stream(t, client, "a", func() {
			if n%2 == 0 {
				_ = front.cmd.Process.Kill()
				_ = front.cmd.Wait()
			} else if err := front.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
		})
		b.stream(t, client, "b", func() {})
		if n%2 == 0 {
			b.start(t, has, strings.Split(front.url, "/")[2])
		} else if err := front.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		} else {
			b.silent[has].Store(0) // the balancer has noticed that it answers again
		}
		b.stream(t, client, "c", func() {}) // wherever its session is now
		if t.Failed() {
			t.Fatalf("in round %d", n)
		}
	}
}

// stream makes a call, lets something happen while its output comes, and holds that all of it comes once.
func (b *balanced) stream(t *testing.T, client *resumed, id string, happens func()) {
	t.Helper()
	began := time.Now()
	client.text.Reset()
	client.seqs, client.ends, client.lastEvent = nil, nil, ""
	client.response = ask(client, id, "tools/call", `"name":"lines","arguments":{},"task":{}`)
	for n := range 100 {
		silent := time.AfterFunc(balancerPatience+5*time.Second, func() { _ = client.response.Body.Close() })
		client.read(2)
		silent.Stop()
		_ = client.response.Body.Close()
		if len(client.ends) > 0 {
			break
		}
		if n == 1 {
			happens()
		}
		client.response = client.send("GET", "")
	}
	t.Logf("call %s: %v", id, time.Since(began).Round(time.Millisecond))
	want := ""
	for i := range 9 {
		want += fmt.Sprintf("line %d\n", i+1)
	}
	if got := client.text.String(); got != want {
		t.Errorf("the stream has brought %q", got)
	}
}
