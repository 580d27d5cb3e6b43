package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"runnel/tools"
)

// events are lines of the log.
type events chan string

func (e events) Write(line []byte) (int, error) {
	var m struct {
		Message  string
		Sections []string
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return 0, err
	}
	e <- fmt.Sprint(m.Message, m.Sections)
	return len(line), nil
}

// want waits for a line, and does something again and again until it comes.
func (e events) want(t *testing.T, line string, again func()) {
	t.Helper()
	for range 50 {
		again()
		for waiting := true; waiting; {
			select {
			case got := <-e:
				if got == line {
					return
				}
			case <-time.After(2 * settle):
				waiting = false
			}
		}
	}
	t.Fatalf("no log line %q", line)
}

// A config that is a link is read again when its target changes, or any link on the way to it, and one whose folder was made anew after
// a SIGHUP. So is one that changed when it had been read and was not watched yet. What only a start takes up is named.
func TestConfigIsWatched(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target", "real.yaml"), filepath.Join(dir, "runnel.yaml")
	n := 0
	write := func() {
		n++
		if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
			t.Fatal(err)
		}
		longer := strings.Repeat(" ", n) // for where times are coarse
		if err := os.WriteFile(target, fmt.Appendf(nil, "limits: {maxInFlight: %d}\ntools: {hello: {command: [echo]}}\n"+longer, n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write()
	relink := func(name, target string) {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, name+".new"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(name+".new", name); err != nil {
			t.Fatal(err)
		}
	}
	versions := filepath.Join(dir, "versions")
	relink(link, "versions/current/runnel.yaml")
	relink(filepath.Join(versions, "current"), "1")
	relink(filepath.Join(versions, "1", "runnel.yaml"), target)
	hangups := make(chan os.Signal)
	i := &invocation{env: os.Environ(), stderr: os.Stderr, hangups: hangups}
	i.options.config = link
	config, _, err := i.loadConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	write() // before it is watched
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	log := make(events, 1000)
	go func() {
		defer close(ended)
		i.reload(ctx, link, config, &tools.Registry{}, zerolog.New(log))
	}()
	defer func() { stop(); <-ended }()

	log.want(t, "config read again[]", func() {})
	log.want(t, "only tools and upstreams change while runnel runs: start it again for what these sections say[limits]", write)
	if err := os.Rename(filepath.Dir(target), filepath.Join(dir, "old")); err != nil {
		t.Fatal(err)
	}
	write()
	log.want(t, "config read again[]", func() { hangups <- syscall.SIGHUP })
	for len(log) > 0 {
		<-log
	}
	log.want(t, "config read again[]", write)

	for n, name := range []string{"1/runnel.yaml", "current"} {
		log.want(t, "config read again[]", func() {
			target := filepath.Join(t.TempDir(), "another.yaml")
			if err := os.WriteFile(target, fmt.Appendf(nil, "tools: {tool-%d: {command: [echo]}}\n", n), 0o600); err != nil {
				t.Fatal(err)
			}
			if name == "current" {
				relink(filepath.Join(filepath.Dir(target), "runnel.yaml"), target)
				target = filepath.Dir(target)
			}
			relink(filepath.Join(versions, name), target)
		})
	}
}

// A config that is a pipe is read once: runnel would wait for more of it, and not end, when its input has.
func TestConfigIsAPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() { _ = os.WriteFile(pipe, []byte("tools: {a: {command: [echo]}}\n"), 0) }()
	i := &invocation{}
	i.options.config = pipe
	if config, _, err := i.loadConfig(t.Context()); err != nil || len(config.Tools) != 1 {
		t.Fatalf("%+v, %v", config, err)
	}
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(pipe, later, later); err != nil { // as who writes to it does
		t.Fatal(err)
	}
	if now, err := os.Stat(pipe); err != nil || !same(now, i.seen) {
		t.Errorf("it is read again: %v", err)
	}
}

// A runnel that waits for its config ends at the first signal, and when the terminal goes.
func TestConfigPipeAtTheStart(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for signal, cause := range map[os.Signal]string{syscall.SIGTERM: "terminated signal received", syscall.SIGHUP: errHangup.Error()} {
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
		if code, text := runnel.ProcessState.ExitCode(), stderr.String(); code != exitFine || !strings.Contains(text, "reading the config "+pipe+": its end has not come: "+cause+"\n") {
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

// A config that is a pipe for a while, to which nobody writes, is waited for no longer than it is one; and a word tells of it.
func TestConfigIsBrieflyAPipe(t *testing.T) {
	t.Parallel()
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
	awaitReader(t, file).Close()
	awaitText("nothing tells of the pipe", func() bool { return strings.Contains(w.log.String(), "the config is a pipe") })
	if err := os.WriteFile(file+".new", []byte("tools: {another: {command: [echo]}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
	awaitText("the change is not taken up", func() bool {
		return strings.Contains(string(w.call("tools/list", map[string]any{}).Result), "another")
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
	for deadline := time.Now().Add(watchdog); !strings.Contains(string(w.call("tools/list", map[string]any{}).Result), "another"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the change is not taken up")
		}
	}
	w.end()
}
