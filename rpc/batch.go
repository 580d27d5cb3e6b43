package rpc

import (
	"sync"
	"sync/atomic"
)

// maxBatch bounds the messages of a batch: 16 MiB of "1,1,1," would otherwise be answered with a gigabyte of
// errors.
const maxBatch = 1000

// batch collects the answers to the members of a JSON-RPC batch, which are sent as one array when all are
// there (JSON-RPC 2.0, section 6). Only 2025-03-26 has batches.
//
// A batch is refused while more than maxUnread bytes of answers are unread, whether they wait for the rest of
// their batch or for the client.
type batch struct {
	w    *writer
	held *atomic.Int64 // bytes of answers in all incomplete batches
	// The calls of the batch; owned by the reader, which starts them after it has read the whole batch.
	calls []func()

	mu    sync.Mutex
	open  int    // members without an answer, plus the reader while it is still reading the batch
	line  []byte // the answers so far
	slots int
	after []After
}

// join adds a call, which will be answered.
func (b *batch) join(run func()) {
	b.calls = append(b.calls, run)
	b.mu.Lock()
	b.open++
	b.mu.Unlock()
}

// add appends an answer, without its newline, to the array.
func (b *batch) add(answer []byte, slots int, a After) {
	b.mu.Lock()
	defer b.mu.Unlock()
	sep := byte(',')
	if len(b.line) == 0 {
		sep = '['
	}
	b.line = append(append(b.line, sep), answer[:len(answer)-1]...)
	b.held.Add(int64(len(answer)))
	b.slots += slots
	if a.Do != nil || a.Drop != nil {
		b.after = append(b.after, a)
	}
}

// leave ends what join began. The last one to leave sends the array, unless it is empty.
func (b *batch) leave() {
	b.mu.Lock()
	b.open--
	last := b.open == 0
	b.mu.Unlock()
	if last {
		defer b.held.Add(-int64(len(b.line)))
	}
	switch {
	case !last || len(b.line) == 0:
	case b.slots == 0:
		_ = b.w.try(append(b.line, "]\n"...)) // fails only if the reader has closed
	default:
		err := b.w.queue(append(b.line, "]\n"...), b.slots)
		if err != nil {
			b.w.freeSlots(b.slots)
		}
		for _, a := range b.after {
			a.settle(err == nil)
		}
	}
}

// start starts the calls of the batch. The reader leaves first: After.Do, which runs when the answers are
// sent, must not run on the reader's goroutine.
func (b *batch) start() {
	b.leave()
	for _, run := range b.calls {
		go run()
	}
}
