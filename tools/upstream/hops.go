package upstream

import (
	"fmt"
	"sync"
	"time"
)

const (
	// hopsVariable tells an upstream how many runnels stand before it, as a header does over HTTP. One that reads the config of the runnel
	// that started it would start another one, and so on.
	hopsVariable = "RUNNEL_HOPS"
	maxHops      = 8
	// hopsFor is how long it counts what a client has said: a circle may have been opened since.
	hopsFor = 10 * time.Minute
)

func tooManyHops(hops int) string {
	return fmt.Sprintf("there are %d runnels before this one already, each the upstream of another", hops)
}

// hops is how many runnels stand before this one, by what its clients over HTTP say. In a circle each request of an upstream says one more
// than the last that came.
type hops struct {
	mu   sync.Mutex
	most int
	said time.Time
}

// came takes note of what a client says.
func (h *hops) came(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n >= h.most || time.Since(h.said) > hopsFor {
		h.most, h.said = n, time.Now()
	}
}

// now is how many there are.
func (h *hops) now() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.said) > hopsFor {
		return 0
	}
	return h.most
}
