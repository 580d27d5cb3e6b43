package rpc

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"
)

// A nudge affects nothing but the reader's time: it loses nothing, and does not outlive its Read.
func TestNudge(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	in, buf := newInput(r), make([]byte, 10)
	read := func(want string, wantErr error) {
		t.Helper()
		if n, err := in.Read(buf); string(buf[:n]) != want || !errors.Is(err, wantErr) {
			t.Errorf("read %q (%v), want %q (%v)", buf[:n], err, want, wantErr)
		}
	}
	if in.wake() {
		t.Error("woken for nothing")
	}
	w.WriteString("x")
	if !in.wake() {
		t.Error("not woken")
	}
	read("x", nil)
	if in.wake() {
		t.Error("woken for what has been read")
	}
	w.WriteString("y")
	in.wake()
	in.interrupt()
	if in.wake() {
		t.Error("woken after the end")
	}
	read("", os.ErrDeadlineExceeded)
	read("", os.ErrDeadlineExceeded)

	in = newInput(r) // which takes the deadline back
	w.Close()
	read("y", nil)
	in.wake()
	read("", io.EOF)
	r.Close()
	if in.wake() {
		t.Error("woken for a closed file")
	}
	if in := newInput(strings.NewReader("x")); in.file != nil {
		t.Error("a reader without a descriptor is to be nudged")
	}
}

// Nudges at any moment change nothing of what is read, and none of them takes back the end.
func TestNudgeRaces(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	in := newInput(r)
	var over atomic.Bool
	nudging := make(chan struct{})
	go func() {
		defer close(nudging)
		for !over.Load() {
			in.wake()
		}
	}()
	line := strings.Repeat("x", 99) + "\n"
	const lines = 20_000
	go func() {
		for range lines {
			w.WriteString(line)
		}
	}()
	var got bytes.Buffer
	buf := make([]byte, 1000)
	for got.Len() < lines*len(line) {
		n, err := in.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		got.Write(buf[:n])
	}
	if got.String() != strings.Repeat(line, lines) {
		t.Error("not what was written")
	}
	ended := make(chan error)
	go func() {
		_, err := in.Read(buf)
		ended <- err
	}()
	in.interrupt()
	if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the end is %v", err)
	}
	over.Store(true)
	<-nudging
}
