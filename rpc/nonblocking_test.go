package rpc

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// What is written by its authors and what is left to the writer's goroutine comes whole and in order, however the client reads.
func TestWriteNow(t *testing.T) {
	r, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	w := newWriter(out, func(int) {}, zerolog.Nop())
	if w.attempt == nil {
		t.Fatal("a pipe of the runtime's poller takes no attempt")
	}
	const lanes, lines = 4, 2000
	var authors sync.WaitGroup
	for lane := range lanes {
		authors.Go(func() {
			for i := range lines {
				encode := line(fmt.Sprintf("%d %d %s", lane, i, strings.Repeat("x", i*37%5000)))
				l := &Lane{w}
				switch written, err := l.WriteNow(encode); {
				case err != nil:
					t.Error(err)
				case !written:
					if err := l.Write(t.Context(), encode); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	go w.run()
	go func() { authors.Wait(); w.close(); <-w.done; out.Close() }()

	next := [lanes]int{}
	var all bytes.Buffer
	buf := make([]byte, 100_000)
	for reads := 0; ; reads++ {
		n, err := r.Read(buf[:1+reads*7919%len(buf)])
		all.Write(buf[:n])
		if err != nil {
			break
		}
	}
	for l := range strings.Lines(all.String()) {
		var lane, i int
		if _, err := fmt.Sscan(l, &lane, &i); err != nil || i != next[lane] || len(l) < i*37%5000 {
			t.Fatalf("lane %d, line %d, want %d: %.40q (%v)", lane, i, next[lane], l, err)
		}
		next[lane]++
	}
	if next != [lanes]int{lines, lines, lines, lines} {
		t.Errorf("lines that have come: %v", next)
	}
}

// A file and a blocking pipe must not be written by those who cannot wait.
func TestBlockingOutput(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer pipe.Close()
	pipe.Fd() // makes it blocking
	for name, out := range map[string]io.Writer{"file": file, "pipe": pipe, "memory": &bytes.Buffer{}} {
		if nonblocking(out) != nil {
			t.Errorf("%s: an attempt to write may wait", name)
		}
	}
}

// A client that has gone is noticed when an author writes, too.
func TestWriteNowToNobody(t *testing.T) {
	r, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	w := newWriter(out, func(int) {}, zerolog.Nop())
	go w.run()
	if written, err := (&Lane{w}).WriteNow(line("x")); !written || err != nil {
		t.Fatal(written, err)
	}
	select {
	case <-w.failed.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("nobody has noticed that the client has gone")
	}
	<-w.done
}
