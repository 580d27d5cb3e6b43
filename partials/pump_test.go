package partials

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Stop ends a pump whatever it waits for: output, its time, or the client.
func TestStopEndsAPumpThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, o := range []PumpOptions{{}, {Pace: time.Hour}} {
			for _, lane := range []Lane{&buffer{}, fullLane{}} {
				l := NewLog(nil)
				p := NewPump(l.NewReader(0), NewSEP2679(head, "id", nil), lane, o)
				ended := make(chan error, 1)
				go func() { ended <- p.Run(t.Context()) }()
				mustAppend(t, l, text("first"))
				synctest.Wait()
				mustAppend(t, l, text("for the next notification"))
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

// A pump that waits for its time is not woken by what a tool writes meanwhile, which may be a thousand lines: it shows the last.
func TestTailWaitsForItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLog(nil)
		p := NewPump(l.NewTail(), NewProgress(nil, json.RawMessage("1"), "", true), &buffer{}, PumpOptions{Pace: time.Hour})
		done := make(chan error, 1)
		go func() { done <- p.Run(t.Context()) }()
		mustAppend(t, l, text("first\n"))
		synctest.Wait() // it has been shown
		mustAppend(t, l, text("second\n"))
		synctest.Wait()
		l.mu.Lock()
		waits := l.output
		l.mu.Unlock()
		mustAppend(t, l, text("third\n"))
		l.mu.Lock()
		if waits == nil || waits != l.output {
			t.Error("woken before its time")
		}
		l.mu.Unlock()
		l.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Nobody waits for a pump that was stopped before it ran, as one is whose client got a handle and reads elsewhere.
func TestAppendWaitsForNoStoppedPump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLog(&LogOptions{MaxPending: 10})
		NewPump(l.NewReader(0), NewSEP2679(head, "id", nil), &buffer{}, PumpOptions{}).Stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for range 3 {
			if err := l.Append(ctx, text("more than ten bytes")); err != nil {
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
	mustAppend(t, l, text("too late"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := NewPump(l.NewReader(0), NewSEP2679(head, "id", nil), lane, PumpOptions{}).Run(ctx); err == nil {
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

// A backing that cannot be read for a moment ends no delivery; what it cannot give back at all is left out, and the client is told.
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
					mustAppend(t, l, text(long))
				}
				s.keep(l)
				var out buffer
				l.Close()
				if err := NewPump(l.NewReader(0), NewSEP2679(head, "id", nil), &out, PumpOptions{}).Run(t.Context()); err != nil {
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
