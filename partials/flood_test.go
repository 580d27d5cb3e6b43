package partials

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// clientLane is a lane with a buffer, which its client empties now and then.
type clientLane struct {
	mu    sync.Mutex
	buf   []byte
	empty chan struct{} // closed when the client has read; nil if nobody waits for it
	got   []byte
}

func (l *clientLane) Write(ctx context.Context, encode func([]byte) []byte) error {
	for ctx.Err() == nil {
		l.mu.Lock()
		if len(l.buf) == 0 {
			l.buf = encode(l.buf)
			l.mu.Unlock()
			return nil
		}
		if l.empty == nil {
			l.empty = make(chan struct{})
		}
		empty := l.empty
		l.mu.Unlock()
		select {
		case <-empty:
		case <-ctx.Done():
		}
	}
	return context.Cause(ctx)
}

// read is what the client has read so far.
func (l *clientLane) read() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.got, l.buf = append(l.got, l.buf...), l.buf[:0]
	if l.empty != nil {
		close(l.empty)
		l.empty = nil
	}
	return l.got
}

// Whoever appends, how much and how often, and however clients read: each gets all of it, in order, and soon.
func TestFloods(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) { floods(t, rand.New(rand.NewPCG(seed, 0))) })
	}
}

func floods(t *testing.T, rng *rand.Rand) {
	l := NewLog(&LogOptions{MaxPending: 1 << (10 + rng.IntN(10))})
	lanes := make([]*clientLane, 1+rng.IntN(3))
	readers := make([]*Reader, len(lanes))
	ended := make(chan error, len(lanes))
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for i := range lanes {
		lane, rng := &clientLane{}, rand.New(rand.NewPCG(rng.Uint64(), 0))
		lanes[i] = lane
		o := DeliverOptions{MaxBytes: 1 << (11 + rng.IntN(5)),
			Pace: time.Duration(rng.IntN(4)/3) * time.Millisecond}
		readers[i] = l.NewReader(0)
		go func() { ended <- Deliver(t.Context(), readers[i], NewSEP2679(head, "id", nil), lane, o) }()
		most := 32 << rng.IntN(6) // µs between two looks
		clients.Go(func() {
			for !closed(stop) {
				lane.read()
				time.Sleep(time.Duration(1+rng.IntN(most)) * time.Microsecond)
			}
		})
	}
	stopped := &clientLane{}
	d := startDelivery(t, l.NewReader(0), stopped, DeliverOptions{MaxBytes: 1 << 11})
	when := time.Duration(rng.IntN(20)) * time.Millisecond
	clients.Go(func() {
		for began := time.Now(); time.Since(began) < when; time.Sleep(50 * time.Microsecond) {
			stopped.read()
		}
		d.stop()
		before := len(stopped.read())
		time.Sleep(10 * time.Millisecond)
		if more := len(stopped.read()) - before; more > 0 {
			t.Errorf("%d bytes come after the stop", more)
		}
	})

	written := make([]int, 1+rng.IntN(3))
	var tools sync.WaitGroup
	for tool := range written {
		rng := rand.New(rand.NewPCG(rng.Uint64(), 0))
		tools.Go(func() {
			for range 100 {
				var lines []Chunk
				for range 1 + rng.IntN(1+rng.IntN(60)) {
					line := fmt.Appendf(nil, "%d %d%s\n", tool, written[tool],
						strings.Repeat("\"", rng.IntN(1+rng.IntN(300))))
					lines = append(lines, Chunk{Data: line, Whole: true})
					written[tool]++
				}
				if rng.IntN(4) == 0 { // as one write
					for i := range lines[1:] {
						lines[i].More = true
					}
				}
				mustAppend(t, l, lines...)
				if rng.IntN(4) == 0 {
					time.Sleep(time.Duration(rng.IntN(3000)) * time.Microsecond)
				}
			}
		})
	}
	tools.Wait()
	// The log is still open.
	for began := time.Now(); slices.ContainsFunc(readers,
		func(r *Reader) bool { return r.Pos() < l.Size() }); time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Error("some of it is not written")
			break
		}
	}
	for i, lane := range lanes {
		checkFlood(t, i, lane.read(), written)
	}
	l.Close()
	for range cap(ended) {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	<-d.done
	close(stop)
	clients.Wait()
}

// checkFlood checks that what came is numbered without a gap and has all that each tool has written, in
// order.
func checkFlood(t *testing.T, client int, got []byte, written []int) {
	t.Helper()
	var text []byte
	seq := 0
	for line := range bytes.Lines(got) {
		var n struct {
			Params struct {
				Seq     int
				Content []struct{ Text string }
			}
		}
		if err := json.Unmarshal(line, &n); err != nil || n.Params.Seq != seq {
			t.Fatalf("client %d: notification %d is %.100s (%v)", client, seq, line, err)
		}
		seq++
		for _, c := range n.Params.Content {
			text = append(text, c.Text...)
		}
	}
	came := make([]int, len(written))
	for line := range bytes.Lines(text) {
		var tool, n int
		if _, err := fmt.Sscanf(string(line), "%d %d", &tool, &n); err != nil || n != came[tool] {
			t.Fatalf("client %d: %.100q came, want line %v", client, line, came)
		}
		came[tool]++
	}
	if !slices.Equal(came, written) {
		t.Errorf("client %d: %v lines came of %v", client, came, written)
	}
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
