package partials

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// countingLane counts who writes.
type countingLane struct {
	mu         sync.Mutex
	now, later int
}

func (l *countingLane) Write(_ context.Context, encode func([]byte) []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.later += bytes.Count(encode(nil), []byte("\n"))
	return nil
}

func (l *countingLane) WriteNow(encode func([]byte) []byte) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now += bytes.Count(encode(nil), []byte("\n"))
	return true, nil
}

func (l *countingLane) want(t *testing.T, now, later int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now != now || l.later != later {
		t.Errorf("%d lines were written by who appends and %d by others, want %d and %d", l.now, l.later, now, later)
	}
}

// What is appended to a log that was quiet is written when Append returns; what follows at once is left to a goroutine.
func TestQuietLogIsWrittenByWhoAppends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, lane := NewLog(nil), &countingLane{}
		ended := make(chan error, 1)
		NewPump(l.NewReader(0), NewSEP2679(head, "id"), lane, PumpOptions{}).Start(t.Context(), func(err error) { ended <- err })
		for i := range 3 {
			time.Sleep(quiet)
			mustAppend(t, l, text("first"))
			lane.want(t, i+1, i)
			mustAppend(t, l, text("at once"))
			synctest.Wait()
			lane.want(t, i+1, i+1)
		}
		l.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// goroutines counts them without the runtime's own, some of which runtime.NumGoroutine counts.
func goroutines() int {
	stacks := make([]byte, 1<<20)
	return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte("\n\ngoroutine "))
}

// A pump that waits has no goroutine, whatever it waits for, and Stop ends it all the same.
func TestWaitingPumpHasNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := goroutines()
		const pumps = 100
		var all []*Pump
		ended := make(chan error, pumps)
		for i := range pumps {
			l := NewLog(nil)
			p := NewPump(l.NewReader(0), NewSEP2679(head, "id"), &buffer{}, PumpOptions{Pace: time.Duration(i%2) * DefaultPace})
			p.Start(t.Context(), func(err error) { ended <- err })
			mustAppend(t, l, text("first"))
			mustAppend(t, l, text("for the next notification"))
			all = append(all, p)
		}
		synctest.Wait()
		if n := goroutines(); n > before {
			t.Errorf("%d goroutines more while %d pumps wait", n-before, pumps)
		}
		for _, p := range all {
			p.Stop()
		}
		for range pumps {
			if err := <-ended; err == nil {
				t.Error("a stopped pump ended well")
			}
		}
		synctest.Wait()
		select {
		case <-ended:
			t.Error("a pump ended twice")
		default:
		}
	})
}

// A pump whose context has ended says nothing, also where it need not wait for the client.
func TestPumpOfAnEndedContextIsSilent(t *testing.T) {
	l, lane := NewLog(nil), &countingLane{}
	mustAppend(t, l, text("too late"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := NewPump(l.NewReader(0), NewSEP2679(head, "id"), lane, PumpOptions{}).Run(ctx); err == nil {
		t.Error("it ended well")
	}
	lane.want(t, 0, 0)
}

// failing cannot be read until then.
type failing struct {
	*shelf
	until time.Time
}

func (f failing) Load(ctx context.Context, pos int64, limit int) ([]Stretch, error) {
	if time.Now().Before(f.until) {
		return nil, errors.New("too many open files")
	}
	return f.shelf.Load(ctx, pos, limit)
}

// A backing that cannot be read for a moment ends no delivery; what it cannot give back at all is left out, and the client is told.
func TestPumpReadsAgain(t *testing.T) {
	long := strings.Repeat("x", maxText)
	for name, c := range map[string]struct {
		fails time.Duration
		want  string
	}{
		"soon":  {time.Second, strings.Repeat(long, 8)},
		"never": {time.Hour, "\n[... 262144 bytes left out ...]\n" + strings.Repeat(long, 4)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, s := NewLog(&LogOptions{MaxPending: 1 << 30}), &shelf{}
				l.Back(failing{s, time.Now().Add(c.fails)})
				for range 8 {
					mustAppend(t, l, text(long))
				}
				s.keep(l)
				var out buffer
				ended := make(chan error, 1)
				NewPump(l.NewReader(0), NewSEP2679(head, "id"), &out, PumpOptions{}).Start(t.Context(), func(err error) { ended <- err })
				l.Close()
				if err := <-ended; err != nil {
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
