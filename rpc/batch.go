package rpc

import (
	"sync"
	"sync/atomic"
)

// maxBatch bounds the messages of a batch: 16 MiB of "1,1,1," would otherwise be answered with a gigabyte of errors.
const maxBatch = 1000

// batch collects the answers to the members of a JSON-RPC batch, which go out as one array
// when the last one is there (JSON-RPC 2.0, section 6). Only 2025-03-26 has batches.
//
// No batch is begun while more than maxUnread bytes of answers wait, be it for others of their batch or for the client.
type batch struct {
	w     *writer
	held  *atomic.Int64 // bytes of answers in all batches that are not complete
	calls []func()      // start those in it; owned by the reader, which calls them when it has gone through the batch

	mu    sync.Mutex
	open  int    // members without an answer, and the reader while it goes through them
	line  []byte // the answers so far
	slots int
	after []After
}

// join counts a member that will be answered.
func (b *batch) join() {
	b.mu.Lock()
	b.open++
	b.mu.Unlock()
}

// add puts an answer, without its line end, into the array.
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

// leave ends what join began. The last one to leave sends the array; there is none if nothing was answered.
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
		_ = b.w.try(append(b.line, "]\n"...)) // fails only when nobody is there to read it
	default:
		err := b.w.queue(append(b.line, "]\n"...), b.slots)
		if err != nil {
			b.w.release(b.slots)
		}
		for _, a := range b.after {
			a.settle(err == nil)
		}
	}
}

// start starts the calls of the batch. Not before the reader has left: what follows the answers (After.Do) must not run on its goroutine.
func (b *batch) start() {
	b.leave()
	for _, start := range b.calls {
		start()
	}
}
