package every

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tasks/statetest/fake"
	"runnel/tools/config"
)

// state is a state in memory that several runners share, as processes share one on disk.
type state struct {
	fake.Alone
	mu       sync.Mutex
	values   map[string][]byte
	versions map[string]uint64
	fails    error
}

func newState() *state {
	return &state{Alone: fake.Memory(), values: map[string][]byte{}, versions: map[string]uint64{}}
}

func (s *state) Session(_ context.Context, id string) ([]byte, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values[id], s.versions[id], s.fails
}

func (s *state) PutSession(_ context.Context, id string, value []byte, version uint64) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.versions[id] != version {
		return 0, nil
	}
	s.values[id] = value
	s.versions[id]++
	return s.versions[id], nil
}

func (s *state) DeleteSession(context.Context, string) error { return nil }

// process is a process with a scheduler. Its tools take some time.
type process struct {
	*Scheduler
	began time.Time
	takes time.Duration
	fails error
	skew  time.Duration // of its clock

	mu      sync.Mutex
	started []string // what, and how many seconds after began by the true clock
	log     bytes.Buffer
}

func start(t *testing.T, store tasks.Store, list ...Entry) *process {
	p := &process{Scheduler: New(), began: time.Now()}
	p.now = func() time.Time {
		p.mu.Lock()
		defer p.mu.Unlock()
		return time.Now().Add(p.skew).Round(0)
	}
	runner := run.NewRunner(run.Options{State: fake.State(store)})
	t.Cleanup(runner.Close)
	p.Replace(list)
	p.Run(runner, p, zerolog.New(logged{p}))
	return p
}

func (p *process) StartTask(ctx context.Context, id, tool string, arguments []byte) error {
	p.mu.Lock()
	fails, takes := p.fails, p.takes
	if fails == nil {
		p.started = append(p.started, fmt.Sprintf("%s%s@%v", tool, arguments, time.Since(p.began).Truncate(time.Second)))
	}
	p.mu.Unlock()
	if fails != nil {
		return fails
	}
	r, err := p.runner.Start(ctx, run.Spec{ID: id, Tool: tool, Handle: true, TTL: time.Hour,
		Work: func(ctx context.Context, _ *run.Run) run.Done {
			select {
			case <-time.After(takes):
			case <-ctx.Done():
			}
			return run.Done{Result: mcp.Result("done")}
		}})
	if err == nil {
		r.Delivered()
	}
	return err
}

// logged is a process's log as its scheduler writes it.
type logged struct{ *process }

func (l logged) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Write(line)
}

func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// take returns what has been started since the last time.
func (p *process) take() string {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() { p.started = nil }()
	return strings.Join(p.started, " ")
}

// set sets what the process will do.
func (p *process) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// entries returns entries from a config of tools a and b.
func entries(t *testing.T, everyA string) []Entry {
	t.Helper()
	c, err := config.Parse("f", []byte("tools:\n  a: {command: [date], every: "+everyA+"}\n  b: {command: [date]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	list, err := All(c, []mcp.Tool{{Name: "a", InputSchema: []byte(`{"type":"object","required":[]}`)}, {Name: "b"}}, "here")
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	return list
}

// Of all processes with a config one starts the tool, at each of its times.
func TestOnceOverAllProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newState()
		all := []*process{start(t, store, entries(t, "'@every 1s'")...), start(t, store, entries(t, "'@every 1s'")...),
			start(t, store, entries(t, "'@every 1s'")...)}
		all[1].set(func() { all[1].skew = 300 * time.Millisecond }) // its clock is ahead
		time.Sleep(60*time.Second + time.Millisecond)
		seen := map[string]bool{}
		for _, p := range all {
			for line := range strings.Lines(p.said()) {
				_, due, _ := strings.Cut(line, `"due":"`)
				if due, _, _ = strings.Cut(due, `"`); seen[due] || !strings.Contains(line, "started by the clock") {
					t.Errorf("twice, or something else: %s", line)
				}
				seen[due] = true
			}
		}
		if len(seen) != 60 {
			t.Errorf("%d in 60 s", len(seen))
		}
		for _, p := range all {
			p.Stop()
		}
	})
}

// A tool that still runs is not started again, by any process, and one of them says so.
func TestStillRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newState()
		one := start(t, store, entries(t, "{cron: '@every 10s', with: {n: 1}}")...)
		one.set(func() { one.takes = 25 * time.Second })
		time.Sleep(5 * time.Second)
		other := start(t, store, entries(t, "{cron: '@every 10s', with: {n: 1}}")...)
		other.set(func() { other.takes = 25 * time.Second })
		time.Sleep(60 * time.Second)
		if n := len(strings.Fields(one.take() + " " + other.take())); n != 2 { // after 10 and 40 s
			t.Errorf("started %d times", n)
		}
		said := one.said() + other.said()
		if n := strings.Count(said, "still runs"); n != 4 { // after 20, 30, 50 and 60 s
			t.Errorf("said %d times:\n%s", n, said)
		}
		one.Stop()
		other.Stop()
	})
}

// Times that have passed while the machine slept, or that a clock has jumped over, are missed, but for the last
// minute; those that come again when it is set back do not count again, unless it was wrong by hours.
func TestTheClockJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, newState(), entries(t, "'*/10 * * * *'")...) // virtual time begins at midnight of UTC
		jump := func(d time.Duration) { p.set(func() { p.skew += d }) }
		expect := func(what, want string) {
			t.Helper()
			if got := p.take(); got != want {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		time.Sleep(11 * time.Minute)
		expect("as always", "a{}@10m0s")
		jump(34 * time.Minute) // it is 00:45 now
		time.Sleep(time.Minute)
		expect("after a jump", "")
		if !strings.Contains(p.said(), "the machine slept") {
			t.Errorf("it does not say so: %s", p.said())
		}
		time.Sleep(5 * time.Minute) // 00:51
		expect("the next time", "a{}@16m0s")
		jump(9*time.Minute - 10*time.Second) // 00:59:50
		time.Sleep(5 * time.Second)
		jump(30 * time.Second) // 01:00:25
		time.Sleep(11 * time.Second)
		if got := p.take(); !strings.HasPrefix(got, "a{}@17m") || strings.Contains(got, " ") {
			t.Errorf("late by less than a minute: %q", got)
		}
		jump(-25 * time.Minute) // 00:35
		time.Sleep(26 * time.Minute)
		expect("set back", "")
		time.Sleep(10 * time.Minute)
		if got := p.take(); len(strings.Fields(got)) != 1 {
			t.Errorf("10 minutes later: %q", got)
		}
		jump(10 * 365 * 24 * time.Hour) // a wrong clock
		time.Sleep(11 * time.Minute)
		if got := p.take(); len(strings.Fields(got)) != 1 {
			t.Errorf("ten years ahead: %q", got)
		}
		jump(-10 * 365 * 24 * time.Hour)
		time.Sleep(20 * time.Minute)
		if got := p.take(); len(strings.Fields(got)) != 2 {
			t.Errorf("set back by ten years: %q", got)
		}
		p.Stop()
	})
}

// A start that fails, and a state that does not answer, are said; the next time is another one.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newState()
		p := start(t, store, entries(t, "'@every 10s'")...)
		p.set(func() { p.fails = errors.New("too many live tasks") })
		time.Sleep(11 * time.Second)
		if got := p.take(); got != "" || !strings.Contains(p.said(), "too many live tasks") {
			t.Errorf("%q, %s", got, p.said())
		}
		p.set(func() { p.fails = nil })
		store.mu.Lock()
		store.fails = errors.New("no connection")
		store.mu.Unlock()
		time.Sleep(10 * time.Second)
		if got := p.take(); got != "" || !strings.Contains(p.said(), "no connection") {
			t.Errorf("%q, %s", got, p.said())
		}
		store.mu.Lock()
		store.fails = nil
		store.mu.Unlock()
		time.Sleep(10 * time.Second)
		if got := p.take(); got != "a{}@30s" {
			t.Errorf("%q", got)
		}
		p.Stop()
	})
}

// Entries change with the config; one that stays the same goes on, without a state that is shared, too.
func TestReplace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, fake.Memory(), entries(t, "'@every 10s'")...)
		time.Sleep(9999 * time.Millisecond)
		p.Replace(entries(t, "'@every 10s'"))
		time.Sleep(2 * time.Second)
		if got := p.take(); got != "a{}@10s" {
			t.Errorf("the same: %q", got)
		}
		p.Replace(entries(t, "{cron: '@every 3s', with: {n: 1}}"))
		time.Sleep(time.Second + time.Millisecond)
		if got := p.take(); got != `a{"n":1}@12s` {
			t.Errorf("another: %q", got)
		}
		p.Replace(nil)
		time.Sleep(time.Minute)
		p.Replace(entries(t, "'@every 10s'"))
		time.Sleep(10 * time.Second)
		if got := p.take(); len(strings.Fields(got)) != 1 {
			t.Errorf("none, and one: %q", got)
		}
		p.Stop()
		p.Replace(entries(t, "'@every 1s'"))
		time.Sleep(time.Minute)
		if got := p.take(); got != "" {
			t.Errorf("stopped: %q", got)
		}
	})
}

// The arguments must be those of the tool.
func TestArguments(t *testing.T) {
	for with, want := range map[string]string{
		"'@daily'": "every: it cannot start with these arguments", "{cron: '@daily', with: {host: [1]}}": "host",
		"{cron: '@daily', with: {hots: x}}": "host",
		"{cron: '@daily', with: {host: x}}": ""} {
		c, err := config.Parse("f", []byte("tools:\n  a:\n    every: "+with+"\n    command: [date]\n"))
		if err != nil {
			t.Fatal(err)
		}
		spec := mcp.Tool{Name: "a", InputSchema: []byte(
			`{"type":"object","properties":{"host":{"type":"string"}},"required":["host"],"additionalProperties":false}`)}
		list, err := All(c, []mcp.Tool{spec}, "")
		if want == "" {
			if err != nil || len(list) != 1 || string(list[0].Arguments) != `{"host":"x"}` {
				t.Errorf("%s: %v, %v", with, list, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "f:3:") {
			t.Errorf("%s: %v, want %q", with, err, want)
		}
	}
}
