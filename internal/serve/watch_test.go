//go:build unix

package serve

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

	"runnel/internal/system"
	"runnel/tools"
	"runnel/tools/upstream"
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

// A config that is a link is read again when its target changes, or any link on the way to it, and one whose
// folder was made anew after a SIGHUP. So is one that changed when it had been read and was not watched yet.
// What only a start takes up is named.
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
		if err := os.WriteFile(target,
			fmt.Appendf(nil, "limits: {maxInFlight: %d}\ntools: {hello: {command: [echo]}}\n"+longer, n),
			0o600); err != nil {
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
	i := &Setup{Env: os.Environ(), Stderr: os.Stderr, Hangups: hangups}
	i.Options.Config = link
	conf, _, err := i.LoadConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	write() // before it is watched
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	log := make(events, 1000)
	go func() {
		defer close(ended)
		i.reload(ctx, link, conf, upstream.NewSet(&tools.Registry{}), zerolog.New(log), nil)
	}()
	defer func() { stop(); <-ended }()

	log.want(t, "config read again[]", func() {})
	log.want(t, "only tools, upstreams, secrets and notify change while runnel runs: restart it for these sections to take effect[limits]", write)
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
			if err := os.WriteFile(target, fmt.Appendf(nil, "tools: {tool-%d: {command: [echo]}}\n", n),
				0o600); err != nil {
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

// A config that an editor has emptied before it writes it changes nothing; one with only a comment has no tools.
func TestConfigIsEmptied(t *testing.T) {
	file := filepath.Join(t.TempDir(), "runnel.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const tools1 = "tools: {hello: {command: [echo]}}\n"
	write(tools1)
	hangups := make(chan os.Signal)
	i := &Setup{Env: os.Environ(), Stderr: os.Stderr, Hangups: hangups}
	i.Options.Config = file
	conf, _, err := i.LoadConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	set, _, err := i.Registry(conf)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	log := make(events, 1000)
	go func() {
		defer close(ended)
		i.reload(ctx, file, conf, set, zerolog.New(log), nil)
	}()
	defer func() { stop(); <-ended }()
	for range 2 {
		log.want(t, "the config is empty, as while an editor writes it: the tools stay as they were until something is in it[]",
			func() { write("") })
		if set.Tools.Lookup("hello") == nil {
			t.Error("the tool is gone")
		}
		log.want(t, "config read again[]", func() { write("# nothing\n") })
		if set.Tools.Lookup("hello") != nil {
			t.Error("the tool stays")
		}
		log.want(t, "config read again[]", func() { write(tools1) })
		if set.Tools.Lookup("hello") == nil {
			t.Error("the tool does not come back")
		}
	}
}

// A config that is a pipe is read once: runnel would wait for more of it, and not end, when its input has.
func TestConfigIsAPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() { _ = os.WriteFile(pipe, []byte("tools: {a: {command: [echo]}}\n"), 0) }()
	i := &Setup{}
	i.Options.Config = pipe
	if conf, _, err := i.LoadConfig(t.Context()); err != nil || len(conf.Tools) != 1 {
		t.Fatalf("%+v, %v", conf, err)
	}
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(pipe, later, later); err != nil { // as who writes to it does
		t.Fatal(err)
	}
	if now, err := os.Stat(pipe); err != nil || !same(now, i.seen) {
		t.Errorf("it is read again: %v", err)
	}
}

// A command ends at a SIGHUP. One that only starts under UntilHangup, as a server does until its config is
// read, reads it again at the next.
func TestUntilHangup(t *testing.T) {
	hangups := make(chan os.Signal, 1)
	s := Setup{Hangups: hangups}
	for range 2 {
		ctx := s.UntilHangup(t.Context())
		hangups <- syscall.SIGHUP
		<-ctx.Done()
		if err := context.Cause(ctx); err != system.SignalError(syscall.SIGHUP) {
			t.Errorf("the cause is %v", err)
		}
	}
	if s.Hangups == nil {
		t.Error("a server would no longer read its config again at SIGHUP")
	}
}
