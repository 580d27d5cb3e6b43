package nats

import "sync"

// places are where reads of subjects have ended, so that who follows a task goes on from there: to find a place among the messages of many tasks
// takes a request for each halving of the stream.
type places struct {
	mu   sync.Mutex
	next map[string]place // by subject
}

// place is where the next message of a subject begins, and the lowest sequence number that it can have.
type place struct {
	begins   int64
	sequence uint64
}

// mostPlaces is how many are kept, of some 150 bytes each. Without its place a read finds it again.
const mostPlaces = 10_000

// at returns the sequence number to read from for what begins at a place, 0 if it is not known.
func (p *places) at(subject string, begins int64) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if next := p.next[subject]; next.begins == begins {
		return next.sequence
	}
	return 0
}

// note notes where a read has ended.
func (p *places) note(subject string, next place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.next[subject]; p.next == nil || !known && len(p.next) >= mostPlaces {
		p.next = map[string]place{}
	}
	p.next[subject] = next
}
