package partials

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A delivery that is stopped ends whatever it waits for: output, its time, or the client. Append no longer
// waits for it, even if it was never begun.
func TestStopEndsADeliveryThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, o := range []DeliverOptions{{}, {Pace: time.Hour}} {
			for _, lane := range []Lane{&buffer{}, fullLane{}} {
				l := NewLog(&LogOptions{MaxPending: 1000})
				d := startDelivery(t, l.NewReader(0), lane, o)
				mustAppend(t, l, chunkOf("first"))
				synctest.Wait()
				mustAppend(t, l, chunkOf("next"))
				synctest.Wait()
				d.stop()
				synctest.Wait()
				select {
				case err := <-d.done:
					if !errors.Is(err, context.Canceled) {
						t.Errorf("a stopped delivery ended with %v", err)
					}
				default:
					t.Errorf("a delivery of pace %v to a %T goes on after it was stopped", o.Pace, lane)
				}
				mustAppend(t, l, chunkOf(strings.Repeat("x", 1000)))
				mustAppend(t, l, chunkOf("more"))
			}
		}
		l := NewLog(&LogOptions{MaxPending: 1000})
		l.NewReader(0).Close()
		mustAppend(t, l, chunkOf(strings.Repeat("x", 1000)))
		mustAppend(t, l, chunkOf("more"))
	})
}

// The last line is shown after its pace, whatever the tool writes before: a thousand lines wake no one. At
// the end it is shown without its pace, or not at all if the end says it.
func TestLastLineWaitsForItsTime(t *testing.T) {
	for name, c := range map[string]struct {
		late bool
		want []string
	}{
		"last lines":      {false, []string{"0s first", "1h0m0s third", "1h0m1s sixth"}},
		"late last lines": {true, []string{"1h0m0s third"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, began := NewLog(&LogOptions{MaxPending: 10}), time.Now()
				var got []string
				d := EndlessDialect(func(dst []byte, b Batch) []byte {
					got = append(got, time.Since(began).String()+" "+b.LastLine())
					return dst
				})
				done := make(chan error, 1)
				go func() { done <- DeliverLastLine(t.Context(), l, d, &buffer{}, time.Hour, c.late) }()
				for _, line := range []string{"first\n", "second\n", "third\n"} {
					mustAppend(t, l, chunkOf(line))
					synctest.Wait()
				}
				time.Sleep(time.Hour + time.Second)
				for _, line := range []string{"fourth\n", "fifth\n", "sixth\n"} {
					mustAppend(t, l, chunkOf(line))
					l.mu.Lock()
					woken := len(l.waiters) == 0
					l.mu.Unlock()
					if woken {
						t.Errorf("woken by %q before its time", line)
					}
				}
				l.Close()
				if err := <-done; err != nil {
					t.Error(err)
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("shown: %q, want %q", got, c.want)
				}
			})
		})
	}
}

// fullLane is a lane whose client does not read.
type fullLane struct{}

func (fullLane) Write(ctx context.Context, _ func([]byte) []byte) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// A delivery whose context has ended says nothing.
func TestDeliveryOfAnEndedContextIsSilent(t *testing.T) {
	l, lane := NewLog(nil), &buffer{}
	mustAppend(t, l, chunkOf("too late"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Deliver(ctx, l.NewReader(0), NewSEP2679(head, "id", nil), lane, DeliverOptions{}); err == nil {
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
func TestDeliverReadsAgain(t *testing.T) {
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
				if err := Deliver(t.Context(), l.NewReader(0), NewSEP2679(head, "id", nil), &out,
					DeliverOptions{}); err != nil {
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

// to is the lane of one delivery, whose lines go to out.
func (w *oneWriter) to(out *buffer) *oneWriterLane { return &oneWriterLane{w, out} }

type oneWriterLane struct {
	*oneWriter
	out *buffer
}

func (l *oneWriterLane) Write(_ context.Context, encode func([]byte) []byte) error {
	written := make(chan struct{})
	turn := func() {
		l.out.Buffer.Write(encode(nil))
		close(written)
	}
	l.mu.Lock()
	l.turns = append(l.turns, turn)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	<-written
	return nil
}

// A chunk is never left lying, whatever the delivery waits for when it is appended: the log, the lane, its
// time, or a load. When all of them rest, everything is written; with a pace, when its time has passed.
func TestDeliverMissesNothing(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			o := DeliverOptions{Pace: time.Duration(seed%2) * time.Millisecond, MaxBytes: 64 << rng.IntN(6)}
			writer := newOneWriter(t)
			var logs []*Log
			var outs []*buffer
			var running sync.WaitGroup
			var wrote []int
			for i := range 1 + rng.IntN(4) {
				l := NewLog(&LogOptions{MaxPending: 1 << (8 + rng.IntN(8)), Retain: 1})
				if rng.IntN(2) == 0 {
					l.Back(&savingShelf{log: l})
				}
				logs = append(logs, l)
				outs = append(outs, &buffer{})
				wrote = append(wrote, 0)
				r, lane := l.NewReader(0), writer.to(outs[i])
				running.Go(func() {
					if err := Deliver(t.Context(), r, NewSEP2679(head, "id", nil), lane, o); err != nil {
						t.Error(err)
					}
				})
			}
			settled := func(when string) {
				time.Sleep(10*o.Pace + time.Millisecond) // a shelf saves meanwhile, too
				synctest.Wait()
				for i, out := range outs {
					if got := strings.Count(out.String(), "#"); got != wrote[i] {
						t.Fatalf("seed %d, log %d of %d, %s: %d chunks of %d are written", seed, i, len(logs),
							when, got, wrote[i])
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
			running.Wait()
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

// A reader of a followed log may be further than that has grown, by what the backing holds already. If the
// log ends there, the output does, too.
func TestDeliverEndsBeyondAFollowedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		there, s := NewLog(nil), &shelf{}
		there.Back(s)
		mustAppend(t, there, chunkOf("seen, "))
		s.keep(there)
		here := Stored(s, there.Size())
		here.Follow()
		mustAppend(t, there, chunkOf("stored since"))
		s.keep(there)
		asked := 0
		lane := laneFunc(func(encode func([]byte) []byte) {
			asked++
			encode(nil)
		})
		done := startDelivery(t, here.NewReader(0), lane, DeliverOptions{}).done
		synctest.Wait()
		here.Close()
		if err := <-done; err != nil || asked > 10 {
			t.Errorf("ended with %v in %d turns", err, asked)
		}
	})
}
