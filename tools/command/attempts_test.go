//go:build unix

package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"runnel/tasks/run"
	"runnel/tools/config"
	"runnel/tools/toolstest"
)

// A command that fails is begun again as its retry says: the log keeps what each attempt has printed, the
// result is that of the last one, and a call after it begins at the first attempt.
func TestAttempts(t *testing.T) {
	const fails = `echo x >> tries; echo try $(wc -l < tries); test $(wc -l < tries) -ge 3 || exit 7`
	short := new(config.Duration(time.Millisecond))
	for name, test := range map[string]struct {
		retry  config.Retry
		shell  string
		tries  int
		result string
		output string
	}{
		"until it succeeds": {config.Retry{Times: 5, Backoff: short}, fails, 3, "try 3\n",
			"try 1\n[attempt 2: exit code 7]\ntry 2\n[attempt 3: exit code 7]\ntry 3\n"},
		"too few": {config.Retry{Times: 1, Backoff: short}, fails, 2, "try 2\nexit code 7",
			"try 1\n[attempt 2: exit code 7]\ntry 2\n"},
		"another code":   {config.Retry{Times: 1, Backoff: short, On: []int{1, 2}}, fails, 1, "try 1\nexit code 7", "try 1\n"},
		"this code":      {config.Retry{Times: 1, Backoff: short, On: []int{7}}, fails, 2, "try 2\nexit code 7", "try 1\n[attempt 2: exit code 7]\ntry 2\n"},
		"a number alone": {config.Retry{Times: 5, On: []int{}}, fails, 1, "try 1\nexit code 7", "try 1\n"},
		"a signal": {config.Retry{Times: 1, Backoff: short}, `printf x >> tries; kill -9 $$`, 2, "killed by SIGKILL",
			"[attempt 2: killed by SIGKILL]\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			c, err := New("t", config.Command{Shell: test.shell, Retry: test.retry}, config.Base{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				got := toolstest.Call(t, c, nil)
				tried, _ := os.ReadFile(filepath.Join(dir, "tries"))
				if tries := strings.Count(string(tried), "x"); tries != test.tries ||
					!strings.HasPrefix(got.Text(), test.result) || got.Output != test.output {
					t.Errorf("%d tries, result %q, output %q", tries, got.Text(), got.Output)
				}
				_ = os.Remove(filepath.Join(dir, "tries"))
			}
		})
	}
}

// A timeout is not tried again unless the config says so.
func TestAttemptAfterATimeout(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} {
		dir := t.TempDir()
		c, err := New("t", config.Command{Shell: `echo x >> tries; test $(wc -l < tries) -ge 2 || sleep 600`,
			Timeout: config.Duration(2 * time.Second),
			Retry:   config.Retry{Times: 1, Backoff: new(config.Duration(0)), Timeout: again}}, config.Base{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got := toolstest.Call(t, c, nil); got.IsError == again || strings.Contains(got.Text(), "timed out") == again {
				t.Errorf("again %v: %q", again, got.Text())
			}
			_ = os.Remove(filepath.Join(dir, "tries"))
		}
	}
}

// A call that is cancelled while it waits for the next attempt ends, without one.
func TestCancelledBetweenAttempts(t *testing.T) {
	dir := t.TempDir()
	c, err := New("t", config.Command{Shell: `echo x >> tries; exit 1`,
		Retry: config.Retry{Times: 1, Backoff: new(config.Duration(time.Hour))}}, config.Base{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		runner := run.NewRunner(run.Options{})
		go func() {
			for {
				if tried, _ := os.ReadFile(filepath.Join(dir, "tries")); len(tried) > 0 {
					break
				}
				time.Sleep(time.Millisecond)
			}
			runner.Close() // as at the end of a session
		}()
		if got := toolstest.CallBy(t, runner, c, nil); !got.IsError {
			t.Errorf("it has ended with %q", got.Text())
		}
		if tried, _ := os.ReadFile(filepath.Join(dir, "tries")); string(tried) != "x\n" {
			t.Errorf("tried %q", tried)
		}
		_ = os.Remove(filepath.Join(dir, "tries"))
	}
}
