package partials

import (
	"context"
	"testing"
)

// One log keeps as much as ever. Of many that are written at once each keeps less, and all of them little
// more than sharedRetain; when they have ended the next one keeps all again.
func TestSharedMemory(t *testing.T) {
	var m Memory
	chunk := Chunk{Data: make([]byte, maxBlock)}
	fill := func(l *Log) {
		for range 2 * defaultRetain / maxBlock {
			if err := l.Append(context.Background(), chunk); err != nil {
				t.Fatal(err)
			}
		}
	}
	alone := func() {
		t.Helper()
		l := NewLog(&LogOptions{Memory: &m})
		defer l.Close()
		fill(l)
		if held := l.Held(); held < defaultRetain || held > defaultRetain+4*maxBlock {
			t.Errorf("one log keeps %d bytes", held)
		}
	}
	alone()
	for _, n := range []int{8, 100} {
		held := int64(0)
		var logs []*Log
		for range n {
			l := NewLog(&LogOptions{Memory: &m})
			fill(l)
			logs = append(logs, l)
		}
		for _, l := range logs {
			fill(l)
			held += l.Held()
			if l.Held() < backedRetain {
				t.Errorf("one of %d logs keeps %d bytes", n, l.Held())
			}
		}
		for _, l := range logs {
			l.Close()
		}
		if limit := int64(max(sharedRetain, n*backedRetain) + 4*n*maxBlock); held > limit {
			t.Errorf("%d logs keep %d bytes, want at most %d", n, held, limit)
		}
	}
	alone()
}

// Logs that might get a backing, and then do not, keep no more together than others do, however little each
// has written.
func TestSharedMemoryWithoutSpill(t *testing.T) {
	const n = 100
	var m Memory
	var logs []*Log
	spilled := 0
	for range n {
		logs = append(logs, NewLog(&LogOptions{Memory: &m, Spill: func() { spilled++ }}))
	}
	chunk := Chunk{Data: make([]byte, maxBlock)}
	for range 2 << 20 / maxBlock {
		for _, l := range logs {
			if err := l.Append(context.Background(), chunk); err != nil {
				t.Fatal(err)
			}
		}
	}
	held := int64(0)
	for _, l := range logs {
		held += l.Held()
	}
	if limit := int64(n * (backedRetain + 4*maxBlock)); held > limit || spilled != n {
		t.Errorf("%d logs keep %d bytes, want at most %d; %d were asked to spill", n, held, limit, spilled)
	}
}
