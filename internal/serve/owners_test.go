package serve

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"runnel/tasks"
)

// Whoever fills the table of owners keeps nobody out: for a new owner an idle one goes, and comes back when
// it is asked for. One with a session, or with a task, stays.
func TestOwnersGo(t *testing.T) {
	t.Parallel()
	s := &Setup{Stdout: io.Discard, Stderr: io.Discard}
	conf, _, err := s.LoadConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	store, err := s.openState(conf, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	busy := map[string]bool{"0": true}
	o := &owners{setup: s, began: conf, latest: conf, log: zerolog.Nop(), store: store,
		others: map[string]served{}, lastCame: map[string]time.Time{},
		busy: func() map[string]bool { return busy }}
	set, _, err := s.registry(conf, false)
	if err != nil {
		t.Fatal(err)
	}
	o.own = s.server(conf, set, store, nil, zerolog.Nop())
	t.Cleanup(func() { o.stop(); o.close() })
	for i := range maxOwners {
		if _, err := o.serves(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := o.serves("2"); err != nil { // comes again
		t.Fatal(err)
	}
	one := o.others["1"]
	one.idle = func() bool { return false } // a task of its runs
	o.others["1"] = one
	if _, err := o.serves("new"); err != nil {
		t.Error(err)
	}
	for owner, stays := range map[string]bool{"0": true, "1": true, "2": true, "3": false, "4": true,
		"new": true} {
		if _, ok := o.others[owner]; ok != stays {
			t.Errorf("%s is there: %v", owner, ok)
		}
	}
	if _, err := o.serves("3"); err != nil || len(o.others) != maxOwners || len(o.lastCame) != maxOwners {
		t.Errorf("%d owners, %v", len(o.others), err)
	}
	for i := range maxOwners {
		busy[fmt.Sprint(i)] = true
	}
	busy["new"] = true
	if _, err := o.serves("one more"); err == nil {
		t.Error("an owner that is busy goes")
	}
}

// An owner may come for the first time while the config is read again. The race detector looks at what both
// make of it.
func TestOwnerComesDuringAReload(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "runnel.yaml")
	if err := os.WriteFile(file, []byte("tools: {hello: {command: [echo]}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &Setup{Stdout: io.Discard, Stderr: io.Discard}
	s.Options.Config = file
	conf, _, err := s.LoadConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	set, _, err := s.registry(conf, false)
	if err != nil {
		t.Fatal(err)
	}
	store := tasks.NewMemory()
	o := &owners{setup: s, began: conf, latest: conf, log: zerolog.Nop(), store: store,
		others: map[string]served{}, lastCame: map[string]time.Time{}}
	o.own = s.server(conf, set, store, nil, zerolog.Nop())
	s.owners = o
	t.Cleanup(func() { o.stop(); o.close() })
	ctx, cancel := context.WithCancel(t.Context())
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		w := &watcher{Setup: s, began: conf, set: set, log: zerolog.Nop(), file: file}
		for ctx.Err() == nil {
			w.readAgain(t.Context(), byChange)
		}
	}()
	for i := range 50 {
		if _, err := o.serves(fmt.Sprint(i)); err != nil {
			t.Error(err)
		}
	}
	cancel()
	<-reading
}
