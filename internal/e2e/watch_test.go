package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A runnel that waits for its config ends at the first signal, and when the terminal goes.
func TestConfigPipeAtTheStart(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for signal, cause := range map[os.Signal]string{syscall.SIGTERM: "terminated signal received",
		syscall.SIGHUP: "the terminal has gone (SIGHUP)"} {
		runnel := programCommand(t, "--config", pipe, "--state", "memory")
		stderr := &syncBuffer{}
		runnel.Stderr = stderr
		if err := runnel.Start(); err != nil {
			t.Fatal(err)
		}
		silent := awaitReader(t, pipe)
		if err := runnel.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		watch := time.AfterFunc(watchdog, func() { _ = runnel.Process.Kill() })
		_ = runnel.Wait()
		watch.Stop()
		silent.Close()
		if code, text := runnel.ProcessState.ExitCode(), stderr.String(); code != exitFine ||
			!strings.Contains(text, "reading the config "+pipe+": its writer has not closed it: "+
				cause+"\n") {
			t.Errorf("exit code %d, stderr %q", code, text)
		}
	}
}

// awaitReader opens a pipe for writing when somebody reads it.
func awaitReader(t *testing.T, pipe string) *os.File {
	t.Helper()
	for deadline := time.Now().Add(watchdog); ; time.Sleep(10 * time.Millisecond) {
		silent, err := os.OpenFile(pipe, os.O_WRONLY|unix.O_NONBLOCK, 0)
		if err == nil {
			return silent
		}
		if time.Now().After(deadline) {
			t.Fatalf("nobody reads it: %v", err)
		}
	}
}

// A config that is a pipe for a while, to which nobody writes, is waited for no longer than it is one; and a
// word tells of it.
func TestConfigIsBrieflyAPipe(t *testing.T) {
	t.Parallel()
	t.Run("closed", func(t *testing.T) {
		t.Parallel()
		brieflyAPipe(t, func(pipe *os.File) { pipe.Close() })
	})
	t.Run("half written", func(t *testing.T) {
		t.Parallel()
		brieflyAPipe(t, func(pipe *os.File) {
			t.Cleanup(func() { pipe.Close() })
			// More than the pipe holds: it is being read.
			if _, err := pipe.WriteString("tools: {ha" + strings.Repeat(" ", 200<<10)); err != nil {
				t.Error(err)
			}
		})
	})
}

func brieflyAPipe(t *testing.T, write func(pipe *os.File)) {
	config := writeConfig(t, "tools: {a: {command: [echo]}}\n")
	file := config[len(config)-1]
	w := newWitness(t, programCommand(t, append(config, "--state", "memory")...))
	pipe := file + ".pipe"
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(pipe, file); err != nil {
		t.Fatal(err)
	}
	awaitText := func(what string, is func() bool) {
		t.Helper()
		for deadline := time.Now().Add(watchdog); !is(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s:\n%s", what, &w.log)
			}
		}
	}
	write(awaitReader(t, file))
	awaitText("nothing tells of the pipe",
		func() bool { return strings.Contains(w.log.String(), "the config is a pipe") })
	if err := os.WriteFile(file+".new", []byte("tools: {another: {command: [echo]}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
	awaitText("the change is not taken up", func() bool {
		return strings.Contains(string(w.call("tools/list", map[string]any{}).Result), `"name":"another"`)
	})
	w.end()
}

// After a SIGHUP a pipe is read again. While nobody writes to it runnel serves, and ends, as ever.
func TestConfigPipeThatNobodyWrites(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() { _ = os.WriteFile(pipe, []byte("tools: {a: {command: [echo]}}\n"), 0) }()
	w := newWitness(t, programCommand(t, "--config", pipe, "--state", "memory"))
	if err := w.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	defer awaitReader(t, pipe).Close()
	w.end()
}

// Under nohup, where SIGHUP means nothing, a config that changes is read again as ever.
func TestConfigIsWatchedUnderNohup(t *testing.T) {
	t.Parallel()
	config := writeConfig(t, "tools: {a: {command: [echo]}}\n")
	runnel := programCommand(t, append(config, "--state", "memory")...)
	runnel.Args = append([]string{"sh", "-c", `trap "" HUP; exec "$0" "$@"`, runnel.Path}, runnel.Args[1:]...)
	runnel.Path = "/bin/sh"
	w := newWitness(t, runnel)
	file := config[len(config)-1]
	if err := os.WriteFile(file, []byte("tools: {another: {command: [echo]}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(watchdog); !strings.Contains(string(w.call("tools/list", map[string]any{}).
		Result), `"name":"another"`); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the change is not taken up")
		}
	}
	w.end()
}
