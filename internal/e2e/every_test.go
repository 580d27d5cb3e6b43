package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Two runnels on one state, one of which is killed, start a tool at each second at most once, and go on; on
// disk and on Redis.
func TestEverySecond(t *testing.T) {
	t.Parallel()
	for name, where := range map[string]func(t *testing.T) (state string, env []string){
		"disk": func(t *testing.T) (string, []string) { return t.TempDir(), nil },
		"redis": func(t *testing.T) (string, []string) {
			creds := filepath.Join(t.TempDir(), "creds")
			if err := os.WriteFile(creds, []byte("runnel pass\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			return "redis://" + redisServer(t, "pass"), []string{"RUNNEL_REDIS_CREDS=" + creds}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state, env := where(t)
			dir := t.TempDir()
			// Each start appends the second for which it was made: none of two processes may have the same.
			config := filepath.Join(dir, "runnel.yaml")
			text := "tools:\n  tick: {shell: 'echo tick >> ticks', detach: never, every: '@every 1s'}\n"
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			start := func() *witness {
				cmd := programCommand(t, "--config", config, "--state", state, "--log-format", "json")
				cmd.Env = append(cmd.Env, env...)
				return newWitness(t, cmd)
			}
			const begun = "started by the clock"
			due := func(w *witness) (list []string) {
				for line := range strings.Lines(w.log.String()) {
					if _, rest, ok := strings.Cut(line, `"due":"`); ok && strings.Contains(line, begun) {
						at, _, _ := strings.Cut(rest, `"`)
						list = append(list, at)
					}
				}
				return list
			}
			all := []*witness{start(), start()}
			waitFor := func(what string, holds func() bool) {
				t.Helper()
				for deadline := time.Now().Add(watchdog); !holds(); time.Sleep(20 * time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("%s: %v, %v", what, due(all[0]), due(all[1]))
					}
				}
			}
			waitFor("two starts", func() bool { return len(due(all[0]))+len(due(all[1])) >= 2 })
			all[0].kill()
			left := len(due(all[1]))
			waitFor("starts of the other one", func() bool { return len(due(all[1])) >= left+2 })
			all[1].end()
			seen := map[string]bool{}
			for _, at := range append(due(all[0]), due(all[1])...) {
				if second, _, _ := strings.Cut(at, "."); seen[second] {
					t.Errorf("two starts at %s", second)
				} else {
					seen[second] = true
				}
			}
			ticks, err := os.ReadFile(filepath.Join(dir, "ticks"))
			if n := strings.Count(string(ticks), "tick\n"); err != nil || n == 0 || n > len(seen)+1 {
				t.Errorf("%d runs of %d starts, %v", n, len(seen), err)
			}
			var stdout bytes.Buffer
			list := programCommand(t, "tasks", "list", "--state", state, "--host", "schedule", "-q")
			list.Env, list.Stdout = append(list.Env, env...), &stdout
			if err := list.Run(); err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(stdout.String(), "\n"); n < len(seen) || n > len(seen)+1 {
				t.Errorf("%d tasks are listed of %d starts", n, len(seen))
			}
		})
	}
}

// A project's config that was not trusted starts nothing; once it is trusted, its tools start.
func TestEveryNeedsTrust(t *testing.T) {
	t.Parallel()
	c := newCheckout(t)
	config := "tools: {leave-mark: {command: [touch, " + c.mark + "], every: '@every 1s'}}\n"
	if err := os.WriteFile(filepath.Join(c.dir, "runnel.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	started := func(s *session, n int) {
		t.Helper()
		for deadline := time.Now().Add(watchdog); strings.Count(s.stderr.String(), "started by the clock") <
			n; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal(s.stderr.String())
			}
		}
	}
	untrusted := process(t, c.command("--state", "memory"))
	untrusted.open()
	other := t.TempDir()
	named := filepath.Join(other, "named.yaml") // a file that is named needs no trust
	if err := os.WriteFile(named, []byte("tools: {tick: {command: [date], every: '@every 1s'}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	clock := process(t, programCommand(t, "--config", named, "--state", "memory"))
	clock.open()
	started(clock, 3)
	if said := untrusted.stderr.String(); c.marked() || strings.Contains(said, "started by") {
		t.Fatalf("it has started: %s", said)
	}
	c.run("", "trust").is(t, exitFine, ".*", "trusted until")
	trusted := process(t, c.command("--state", "memory"))
	trusted.open()
	started(trusted, 2)
	if !c.marked() {
		t.Error("no mark")
	}
}

// Workers start what their config has, once for all of them, also when one is killed; any of them runs it.
func TestEveryOnWorkers(t *testing.T) {
	t.Parallel()
	c := newCrew(t, `
tools:
  tick: {shell: 'echo $WHO >> $DIR/ticks', runs: builds, every: '@every 1s'}
`)
	one, first := c.work("one")
	_, second := c.work("two")
	starts := func() int { return strings.Count(first.String()+second.String(), "started by the clock") }
	lines := func() int {
		text, _ := os.ReadFile(filepath.Join(c.dir, "ticks")) // it may not be there yet
		return strings.Count(string(text), "\n")
	}
	for n, kill := range []bool{true, false} {
		for deadline := time.Now().Add(watchdog); ; time.Sleep(20 * time.Millisecond) {
			if starts() >= 3*(n+1) && lines() >= 2*(n+1) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d starts, %d runs", starts(), lines())
			}
		}
		if kill {
			_ = one.Process.Kill()
		}
	}
	seen := map[string]bool{}
	for line := range strings.Lines(first.String() + second.String()) {
		if _, rest, ok := strings.Cut(line, `"due":"`); ok && strings.Contains(line, "started by the clock") {
			if at, _, _ := strings.Cut(rest, `"`); seen[at] {
				t.Errorf("two starts at %s", at)
			} else {
				seen[at] = true
			}
		}
	}
	if n := lines(); n > len(seen)+1 {
		t.Errorf("%d runs of %d starts", n, len(seen))
	}
	c.until(`(?m)^[0-9a-f]{8} .*completed .*tick`, "tasks", "list", "--host", "schedule")
}
