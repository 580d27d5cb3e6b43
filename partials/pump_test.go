package partials

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Stop ends a pump whatever it waits for: output, its time, or the client.
func TestStopEndsAPumpThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, o := range []PumpOptions{{}, {Pace: time.Hour}} {
			for _, lane := range []waitingLane{&buffer{}, fullLane{}} {
				l := NewLog(nil)
				p := NewPump(l.NewReader(0), NewSEP2679(head, "id", nil), turns{lane}, o)
				ended := make(chan error, 1)
				go func() { ended <- p.Run(t.Context()) }()
				mustAppend(t, l, chunkOf("first"))
				synctest.Wait()
				mustAppend(t, l, chunkOf("for the next notification"))
				synctest.Wait()
				p.Stop()
				synctest.Wait()
				select {
				case err := <-ended:
					if !errors.Is(err, errStopped) {
						t.Errorf("a stopped pump ended with %v", err)
					}
				default:
					t.Errorf("a pump of pace %v to a %T goes on after Stop", o.Pace, lane)
				}
			}
		}
	})
}

// A pump that waits for its time is not woken by what a tool writes meanwhile, which may be a thousand lines:
// it shows the last.
func TestTailWaitsForItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLog(nil)
		p := NewPump(l.NewTail(), NewProgress(nil, json.RawMessage("1"), "", true), turns{&buffer{}}, PumpOptions{Pace: time.Hour})
		done := make(chan error, 1)
		go func() { done <- p.Run(t.Context()) }()
		mustAppend(t, l, chunkOf("first\n"))
		synctest.Wait() // it has been shown
		mustAppend(t, l, chunkOf("second\n"))
		synctest.Wait()
		mustAppend(t, l, chunkOf("third\n"))
		l.mu.Lock()
		if !p.waiter.waits {
			t.Error("woken before its time")
		}
		l.mu.Unlock()
		l.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Nobody waits for a pump that was stopped before it ran, as one is whose client got a handle and reads
// elsewhere.
func TestAppendWaitsForNoStoppedPump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLog(&LogOptions{MaxPending: 10})
		NewPump(l.NewReader(0), NewSEP2679(head, "id", nil), turns{&buffer{}}, PumpOptions{}).Stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for range 3 {
			if err := l.Append(ctx, chunkOf("more than ten bytes")); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// fullLane is a lane whose client does not read.
type fullLane struct{}

func (fullLane) Write(ctx context.Context, _ func([]byte) []byte) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// A pump whose context has ended says nothing.
func TestPumpOfAnEndedContextIsSilent(t *testing.T) {
	l, lane := NewLog(nil), &buffer{}
	mustAppend(t, l, chunkOf("too late"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := NewPump(l.NewReader(0), NewSEP2679(head, "id", nil), turns{lane}, PumpOptions{}).Run(ctx); err == nil {
		t.Error("it ended well")
	}
	if lane.Len() > 0 {
		t.Errorf("it wrote %s", lane)
	}
}

// failing cannot be read until then.
type failing struct {
	*shelf
	until time.Time
}

func (f failing) Load(ctx context.Context, pos int64, limit int) ([]Extent, error) {
	if time.Now().Before(f.until) {
		return nil, errors.New("too many open files")
	}
	return f.shelf.Load(ctx, pos, limit)
}

// A backing that cannot be read for a moment ends no delivery; what it cannot give back at all is left out,
// and the client is told.
func TestPumpReadsAgain(t *testing.T) {
	long := strings.Repeat("x", maxText)
	for name, c := range map[string]struct {
		fails time.Duration
		want  string
	}{
		"soon":  {time.Second, strings.Repeat(long, 8)},
		"never": {time.Hour, "[262144 bytes of output are no longer kept]\n" + strings.Repeat(long, 4)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, s := NewLog(&LogOptions{MaxPending: 1 << 30}), &shelf{}
				l.Back(failing{s, time.Now().Add(c.fails)})
				for range 8 {
					mustAppend(t, l, chunkOf(long))
				}
				s.keep(l)
				var out buffer
				l.Close()
				if err := NewPump(l.NewReader(0), NewSEP2679(head, "id", nil), turns{&out}, PumpOptions{}).Run(t.Context()); err != nil {
					t.Fatal(err)
				}
				var got strings.Builder
				for line := range strings.Lines(out.String()) {
					var m struct {
						Params struct{ Content []struct{ Text string } }
					}
					if err := json.Unmarshal([]byte(line), &m); err != nil {
						t.Fatal(err)
					}
					for _, item := range m.Params.Content {
						got.WriteString(item.Text)
					}
				}
				if got.String() != c.want {
					t.Errorf("%d bytes %.60q, want %d %.60q", got.Len(), got.String(), len(c.want), c.want)
				}
			})
		})
	}
}

// oneWriter is a Lane as package rpc has them: one goroutine pulls those that have something, in turn.
type oneWriter struct {
	mu    sync.Mutex
	turns []func()
	wake  chan struct{} // capacity 1
}

func newOneWriter(t *testing.T) *oneWriter {
	w := &oneWriter{wake: make(chan struct{}, 1)}
	go func() {
		for t.Context().Err() == nil {
			w.mu.Lock()
			turns := w.turns
			w.turns = nil
			w.mu.Unlock()
			for _, turn := range turns {
				turn()
			}
			if len(turns) == 0 {
				select {
				case <-w.wake:
				case <-t.Context().Done():
				}
			}
		}
	}()
	return w
}

// to is the lane of one pump, whose lines go to out.
func (w *oneWriter) to(out *buffer) *oneWriterLane { return &oneWriterLane{w, out} }

type oneWriterLane struct {
	*oneWriter
	out *buffer
}

func (l *oneWriterLane) Turns(encode func(dst []byte) []byte, _ func(error)) (enter, leave func()) {
	turn := func() { l.out.Buffer.Write(encode(nil)) }
	enter = func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.turns = append(l.turns, turn)
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
	return enter, func() {}
}

// A chunk that is appended while the log, the lane, the timer or a load has the pump is never left lying:
// when nobody has anything to do, everything is written; with a pace, when its time has passed; and so is the
// end, once.
func TestPumpMissesNoWake(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			o := PumpOptions{Pace: time.Duration(seed%2) * time.Millisecond, MaxBytes: 64 << rng.IntN(6)}
			writer := newOneWriter(t)
			var logs []*Log
			var outs []*buffer
			var ended []int
			var wrote []int
			for i := range 1 + rng.IntN(4) {
				l := NewLog(&LogOptions{MaxPending: 1 << (8 + rng.IntN(8)), Retain: 1})
				if rng.IntN(2) == 0 {
					l.Back(&savingShelf{log: l})
				}
				logs = append(logs, l)
				outs = append(outs, &buffer{})
				ended = append(ended, 0)
				wrote = append(wrote, 0)
				p := NewPump(l.NewReader(0), NewSEP2679(head, "id", nil), writer.to(outs[i]), o)
				p.Start(t.Context(), func(err error) {
					if ended[i]++; err != nil {
						t.Error(err)
					}
				})
			}
			settled := func(when string) {
				time.Sleep(10*o.Pace + time.Millisecond) // a shelf saves meanwhile, too
				synctest.Wait()
				for i, out := range outs {
					if got := strings.Count(out.String(), "#"); got != wrote[i] {
						t.Fatalf("seed %d, log %d of %d, %s: %d chunks of %d are written", seed, i, len(logs), when, got, wrote[i])
					}
				}
			}
			settled("at first")
			for range 20 {
				var tools sync.WaitGroup
				for i, l := range logs {
					n, rng := rng.IntN(30), rand.New(rand.NewPCG(rng.Uint64(), 0))
					wrote[i] += n
					tools.Go(func() {
						for range n {
							mustAppend(t, l, chunkOf("#"+strings.Repeat("x", rng.IntN(200))))
							if rng.IntN(4) == 0 {
								time.Sleep(time.Duration(rng.IntN(300)) * time.Microsecond)
							}
						}
					})
				}
				tools.Wait()
				settled("open")
			}
			for _, l := range logs {
				l.Close()
			}
			settled("closed")
			for i, n := range ended {
				if n != 1 {
					t.Errorf("pump %d has ended %d times", i, n)
				}
			}
		})
	}
}

// savingShelf saves soon what is due.
type savingShelf struct {
	shelf
	mu  sync.Mutex
	log *Log
}

func (s *savingShelf) Due(bool) {
	go func() {
		time.Sleep(10 * time.Microsecond)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.keep(s.log)
	}()
}

func (s *savingShelf) Load(ctx context.Context, pos int64, limit int) ([]Extent, error) {
	time.Sleep(10 * time.Microsecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shelf.Load(ctx, pos, limit)
}

// A timer that is quicker than the pump that sets it is not lost.
func TestPumpOfTheShortestPace(t *testing.T) {
	l, out := NewLog(nil), make(chan int)
	NewPump(l.NewReader(0), NewSEP2679(head, "id", nil), turns{laneFunc(func(encode func([]byte) []byte) {
		out <- len(encode(nil))
	})}, PumpOptions{Pace: 1}).Start(t.Context(), func(error) {})
	for n := range 5000 {
		mustAppend(t, l, chunkOf("x"))
		select {
		case <-out:
		case <-time.After(time.Minute):
			t.Fatalf("chunk %d is left lying", n)
		}
	}
}

// A reader of a followed log may be further than that has grown, by what the backing holds already. If the
// log ends there, the output does, too.
func TestPumpEndsBeyondAFollowedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		there, s := NewLog(nil), &shelf{}
		there.Back(s)
		mustAppend(t, there, chunkOf("seen, "))
		s.keep(there)
		here := Stored(s, there.Size())
		here.Follow()
		mustAppend(t, there, chunkOf("stored since"))
		s.keep(there)
		asked, ended := 0, 0
		lane := laneFunc(func(encode func([]byte) []byte) {
			if asked++; asked < 100 {
				encode(nil)
			}
		})
		NewPump(here.NewReader(0), NewSEP2679(head, "id", nil), turns{lane}, PumpOptions{}).Start(t.Context(), func(error) { ended++ })
		synctest.Wait()
		here.Close()
		synctest.Wait()
		if ended != 1 || asked > 10 {
			t.Errorf("ended %d times in %d turns", ended, asked)
		}
	})
}
