package partials

import (
	"bytes"
	"context"
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

// inBatch is how many lines of "chunk" fit into a batch.
const inBatch = defaultMaxBytes / (lineOverhead + len("chunk"))

// flood starts a pump and appends a full batch and some more at once. When it returns the pump has written the batch and waits for
// who appends next.
func flood(t *testing.T, l *Log, more int) (lane *countingLane, ended chan error) {
	t.Helper()
	lane, ended = &countingLane{}, make(chan error, 1)
	NewPump(l.NewReader(0), NewSEP2679(head, "id"), lane, PumpOptions{}).Start(t.Context(), func(err error) { ended <- err })
	mustAppend(t, l, text("first"))
	lane.mu.Lock()
	for range inBatch + more {
		mustAppend(t, l, text("chunk"))
	}
	lane.mu.Unlock()
	synctest.Wait()
	lane.want(t, 1, inBatch)
	return lane, ended
}

// In a flood, who appends writes, a full batch at a time. What is left when it ends is written a moment later by a goroutine.
func TestFloodIsWrittenByWhoAppends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLog(nil)
		lane, ended := flood(t, l, 0)
		for i := range 3 {
			for range inBatch {
				lane.want(t, 1+i*inBatch, inBatch)
				mustAppend(t, l, text("chunk"))
			}
		}
		mustAppend(t, l, text("chunk"))
		lane.want(t, 1+3*inBatch, inBatch)
		time.Sleep(quiet)
		synctest.Wait()
		lane.want(t, 1+3*inBatch, inBatch+1)
		mustAppend(t, l, text("the flood is over"))
		synctest.Wait()
		lane.want(t, 1+3*inBatch, inBatch+2)
		l.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Who appends writes one batch of what stands there already. When nobody appends any more a goroutine writes all the others.
func TestFloodThatStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLog(nil)
		const batches = 5
		lane, ended := flood(t, l, batches*inBatch)
		for i := range 2 {
			mustAppend(t, l, text("chunk"))
			synctest.Wait()
			lane.want(t, 1+(i+1)*inBatch, inBatch)
		}
		time.Sleep(quiet)
		synctest.Wait()
		lane.want(t, 1+2*inBatch, (batches-1)*inBatch+2)
		l.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// An append that waits for room does not wait for a pump that waits for it.
func TestFloodThatWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const more, room = 10, 2 * inBatch * minCost
		l := NewLog(&LogOptions{MaxPending: room})
		lane, ended := flood(t, l, more)
		began := time.Now()
		mustAppend(t, l, text(strings.Repeat("x", room-minCost)))
		if waited := time.Since(began); waited > 0 {
			t.Errorf("it waited %v", waited)
		}
		synctest.Wait()
		lane.want(t, 1, inBatch+more+1)
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
