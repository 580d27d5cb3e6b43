package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
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
	w := newWriter(pipeOutput{Writer: p}, func(int) {}, zerolog.Nop())
	go w.run()
	w.queue([]byte("first\n"), 0)
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

// While the client does not read, lanes wait and encode nothing; control lines queue, and go first; a context
// ends the wait.
func TestStalledClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, p := newStalled(t)
		l := laneOf(w)
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error, 2)
		go func() {
			over <- l.Write(ctx, func(dst []byte) []byte { t.Error("encoded though its context has ended"); return dst })
		}()
		synctest.Wait()
		go func() { over <- laneOf(w).Write(t.Context(), line("second lane")) }()
		synctest.Wait()
		select {
		case err := <-over:
			t.Fatalf("a lane did not wait: %v", err)
		default:
		}
		if err := w.queue([]byte("control\n"), 0); err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := <-over; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if got, want := p.readAll(), "first\ncontrol\nsecond lane\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
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
		if err := laneOf(w).Write(ctx, line("x")); !errors.Is(err, context.Canceled) {
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
		for i := range lanes {
			go func() {
				l := laneOf(w)
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
		for n, l := range strings.Split(strings.TrimSuffix(p.readAll(), "\n"), "\n")[1:] {
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

// A lane that is opened after a control line was queued writes after that line, also when both happen while
// another lane is pulled: a task's partials never come before its handle.
func TestControlBeforeLaterLane(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, p := newStalled(t)
		go func() {
			laneOf(w).Write(t.Context(), func(dst []byte) []byte {
				w.queue([]byte("handle\n"), 0)
				go laneOf(w).Write(t.Context(), line("partial"))
				awaitLane(w)
				return append(dst, "other lane\n"...)
			})
		}()
		synctest.Wait()
		if got, want := p.readAll(), "first\nother lane\nhandle\npartial\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// awaitLane returns when a lane waits for its turn.
func awaitLane(w *writer) {
	for {
		w.mu.Lock()
		waits := len(w.turns) > 0
		w.mu.Unlock()
		if waits {
			return
		}
		runtime.Gosched()
	}
}

func TestBrokenOutput(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, p := newStalled(t)
		l := laneOf(w)
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
		if err := w.queue([]byte("x\n"), 0); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("control: %v", err)
		}
	})
}

// Refusals, answers to pings and what the client can do without are dropped when too much is unread, and come
// again afterwards.
func TestUnreadRefusalsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, p := newStalled(t)
		refusal := []byte(strings.Repeat("x", 1<<20-1) + "\n")
		for range 3 * maxUnread / len(refusal) {
			w.try(refusal)
		}
		w.queue([]byte("control\n"), 0)
		got := p.readAll()
		if len(got) > maxUnread+2*len(refusal) || !strings.HasSuffix(got, "control\n") {
			t.Errorf("%d bytes were buffered", len(got))
		}
		w.try([]byte("again\n"))
		synctest.Wait()
		if got := p.got[len(p.got)-1]; got != "again\n" {
			t.Errorf("got %q", got[:min(len(got), 50)])
		}
	})
}

// Control lines overtake the lanes that wait, in their own order; but each write pulls a lane, too.
func TestControlOvertakes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, p := newStalled(t)
		for i := range 2 {
			go laneOf(w).Write(t.Context(),
				line(fmt.Sprintf("partial %d %s", i, strings.Repeat("x", laneRoom))))
			synctest.Wait()
		}
		large := strings.Repeat("y", laneRoom)
		w.queue([]byte("control "+large+"\n"), 0)
		w.try([]byte("ping 1\n"))
		p.take <- struct{}{}
		synctest.Wait()
		w.try([]byte("ping 2 " + large + "\n"))
		got := strings.NewReplacer(" "+large, "", " "+strings.Repeat("x", laneRoom), "").Replace(p.readAll())
		if want := "first\ncontrol\nping 1\npartial 0\nping 2\npartial 1\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// BenchmarkLanes is the cost of a notification of 200 bytes from many lanes, its encoding apart.
func BenchmarkLanes(b *testing.B) {
	w := newWriter(pipeOutput{Writer: io.Discard}, func(int) {}, zerolog.Nop())
	go w.run()
	defer func() { w.close(); <-w.done }()
	text := []byte(strings.Repeat("x", 199) + "\n")
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		l := laneOf(w)
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
			w.hold()
			go func() { replied <- w.reply(ctx, large) }()
		}
		synctest.Wait()
		if n := len(replied); n > 0 {
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

func laneOf(w *writer) *Caller { return &Caller{session: &session{peer: &peer{w: w}}} }

// A write that waits for its turn when the output breaks is over.
func TestWriteToABrokenOutput(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, p := newStalled(t)
		over := make(chan error, 1)
		go func() { over <- laneOf(w).Write(t.Context(), line("x")) }()
		synctest.Wait()
		p.broken = io.ErrClosedPipe
		close(p.take)
		if err := <-over; !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("got %v", err)
		}
	})
}
