package rpc

import "sync"

// Event happens once. Its channel is made when somebody waits for it, which for most events of a small call nobody does.
// The zero value is one that has not happened.
type Event struct {
	mu       sync.Mutex
	happened bool
	done     chan struct{} // nil: nobody has waited
}

// Happen tells all who wait. It may be called again.
func (e *Event) Happen() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.happened {
		return
	}
	e.happened = true
	if e.done != nil {
		close(e.done)
	}
}

// Has reports whether it has happened.
func (e *Event) Has() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.happened
}

// Done is closed when it happens.
func (e *Event) Done() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.done == nil {
		e.done = make(chan struct{})
		if e.happened {
			close(e.done)
		}
	}
	return e.done
}
