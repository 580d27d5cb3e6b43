package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/rs/zerolog"
)

// pipe is a client that takes one write at a time, when told to.
type pipe struct {
	take   chan struct{} // closed: it reads all
	over   <-chan struct{}
	broken error
	mu     sync.Mutex
	got    []string // one a write
}

func (p *pipe) Write(b []byte) (int, error) {
	select {
	case <-p.take:
	case <-p.over:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken != nil {
		return 0, p.broken
	}
	p.got = append(p.got, string(b))
	return len(b), nil
}

// newStalled starts a writer on a client that does not read, with one line on its way.
func newStalled(t *testing.T) (*writer, *pipe) {
	p := &pipe{take: make(chan struct{}), over: t.Context().Done()}
	w := newWriter(p, func(int) {}, zerolog.Nop())
	go w.run()
	w.control([]byte("first\n"), 0)
	synctest.Wait()
	t.Cleanup(func() { w.close(); <-w.done })
	return w, p
}

func (p *pipe) readAll() string {
	close(p.take)
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.got, "")
}

func line(s string) func([]byte) []byte {
	return func(dst []byte) []byte { return append(dst, s+"\n"...) }
}

// While the client does not read, lanes write until laneRoom is full and then wait; control messages queue; a context ends the wait.
func TestStalledClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, p := newStalled(t)
		chunk := strings.Repeat("x", 1023)
		l := &Lane{w}
		for range laneRoom / 1024 {
			if err := l.Write(t.Context(), line(chunk)); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error, 2)
		go func() {
			over <- l.Write(ctx, func(dst []byte) []byte { t.Error("encoded while there is no room"); return dst })
		}()
		synctest.Wait()
		go func() { over <- (&Lane{w}).Write(t.Context(), line("second lane")) }()
		synctest.Wait()
		select {
		case err := <-over:
			t.Fatalf("a lane did not wait: %v", err)
		default:
		}
		if err := w.control([]byte("control\n"), 0); err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := <-over; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		want := "first\n" + strings.Repeat(chunk+"\n", laneRoom/1024) + "control\nsecond lane\n"
		if got := p.readAll(); got != want {
			t.Errorf("got %d bytes, want %d; the end is %q", len(got), len(want), got[max(0, len(got)-50):])
		}
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}

// A context that has ended lets nothing out, room or not.
func TestLaneContextEnded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, p := newStalled(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := (&Lane{w}).Write(ctx, line("x")); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if got := p.readAll(); got != "first\n" {
			t.Errorf("got %q", got)
		}
	})
}

// Lanes take turns, however much each of them has to say, when the client reads one write after the other.
func TestLanesTakeTurns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, p := newStalled(t)
		const lanes, rounds = 10, 20
		chunk := strings.Repeat("x", laneRoom)
		(&Lane{w}).Write(t.Context(), line(chunk)) // now nobody finds room
		for i := range lanes {
			go func() {
				l := &Lane{w}
				for r := range rounds {
					if err := l.Write(t.Context(), line(fmt.Sprintf("%d %d %s", i, r, chunk))); err != nil {
						t.Error(err)
					}
				}
			}()
		}
		for range lanes * rounds {
			synctest.Wait()
			p.take <- struct{}{}
		}
		said := make([]int, lanes)
		for n, l := range strings.Split(strings.TrimSuffix(p.readAll(), "\n"), "\n")[2:] {
			var i, r int
			fmt.Sscanf(l, "%d %d", &i, &r)
			if r != said[i] {
				t.Fatalf("lane %d wrote %d after %d", i, r, said[i]-1)
			}
			said[i]++
			if ahead := said[i] - n/lanes; ahead > 1 {
				t.Fatalf("lane %d has written %d of the first %d lines of %d lanes", i, said[i], n+1, lanes)
			}
		}
		for i, n := range said {
			if n != rounds {
				t.Errorf("lane %d wrote %d lines", i, n)
			}
		}
	})
}

func TestBrokenOutput(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, p := newStalled(t)
		l := &Lane{w}
		l.Write(t.Context(), line(strings.Repeat("x", laneRoom)))
		over := make(chan error)
		go func() { over <- l.Write(t.Context(), line("x")) }()
		synctest.Wait()
		p.broken = io.ErrClosedPipe
		close(p.take)
		if err := <-over; !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("a lane that waits: %v", err)
		}
		if err := l.Write(t.Context(), line("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("a lane: %v", err)
		}
		if err := w.control([]byte("x\n"), 0); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("control: %v", err)
		}
	})
}

// Refusals, answers to pings and what the client can do without are dropped when too much is unread, and come again afterwards.
func TestUnreadRefusalsAreBounded(t *testing.T) {
	for name, queue := range map[string]func(*writer, []byte){"cheap": (*writer).cheap, "passing": (*writer).passing} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w, p := newStalled(t)
				refusal := []byte(strings.Repeat("x", 1<<20-1) + "\n")
				for range 3 * maxUnread / len(refusal) {
					queue(w, refusal)
				}
				w.control([]byte("control\n"), 0)
				got := p.readAll()
				if len(got) > maxUnread+2*len(refusal) || !strings.HasSuffix(got, "control\n") {
					t.Errorf("%d bytes were buffered", len(got))
				}
				queue(w, []byte("again\n"))
				w.signal()
				synctest.Wait()
				if got := p.got[len(p.got)-1]; got != "again\n" {
					t.Errorf("got %q", got[:min(len(got), 50)])
				}
			})
		})
	}
}

// Answers to pings overtake what waits, in their own order; but a client that pings all the time gets the rest, too.
func TestCheapOvertakes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, p := newStalled(t)
		(&Lane{w}).Write(t.Context(), line("partial"))
		w.control([]byte("control\n"), 0)
		for _, ping := range []string{"ping 1\n", "ping 2\n", "ping 3\n"} {
			w.cheap([]byte(ping))
			w.signal()
			if ping != "ping 1\n" {
				p.take <- struct{}{}
				synctest.Wait()
			}
		}
		if got, want := p.readAll(), "first\nping 1\nping 2\npartial\ncontrol\nping 3\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// A write with room costs nothing but the copy.
func TestLaneAllocations(t *testing.T) {
	w := newWriter(io.Discard, func(int) {}, zerolog.Nop())
	go w.run()
	defer func() { w.close(); <-w.done }()
	l, text := &Lane{w}, []byte(strings.Repeat("x", 200)+"\n")
	ctx := t.Context()
	encode := func(dst []byte) []byte { return append(dst, text...) }
	if n := testing.AllocsPerRun(10_000, func() {
		if err := l.Write(ctx, encode); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for one write", n)
	}
}

// What a notification of 200 bytes costs from many lanes, its encoding apart.
func BenchmarkLanes(b *testing.B) {
	w := newWriter(io.Discard, func(int) {}, zerolog.Nop())
	go w.run()
	defer func() { w.close(); <-w.done }()
	text := []byte(strings.Repeat("x", 199) + "\n")
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		l := &Lane{w}
		for pb.Next() {
			l.Write(context.Background(), func(dst []byte) []byte { return append(dst, text...) })
		}
	})
}

// Large replies wait for room like lanes, and at the end of the session they are appended all the same.
func TestLargeRepliesWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, p := newStalled(t)
		large := []byte(strings.Repeat("x", 1<<20-1) + "\n")
		ctx, end := context.WithCancel(t.Context())
		replied := make(chan error, 20)
		for range cap(replied) {
			go func() { replied <- w.reply(ctx, large) }()
		}
		synctest.Wait()
		if n := len(replied); n != 1 {
			t.Errorf("%d large replies are in the buffer of a client that does not read", n)
		}
		end()
		for range cap(replied) {
			if err := <-replied; err != nil {
				t.Error(err)
			}
		}
		if got := p.readAll(); len(got) != len("first\n")+cap(replied)*len(large) {
			t.Errorf("%d bytes were written", len(got))
		}
	})
}
