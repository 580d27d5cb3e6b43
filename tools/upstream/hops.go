package upstream

import (
	"fmt"
	"sync"
	"time"
)

const (
	// hopsVariable tells an upstream how many runnels stand before it, as a header does over HTTP. Without
	// it, a runnel that reads the same config as the one that started it would start another, and so on.
	hopsVariable = "RUNNEL_HOPS"
	maxHops      = 8
	// hopsFor is how long a client's number counts: the circle may have been broken meanwhile.
	hopsFor = 10 * time.Minute
)

func tooManyHops(hops int) string {
	return fmt.Sprintf("there are %d runnels before this one already, each the upstream of another", hops)
}

// hops holds how many runnels stand before this one, as its clients over HTTP say. In a circle, the number
// grows by one with each round.
type hops struct {
	mu   sync.Mutex
	most int
	said time.Time
}

// came records a client's number.
func (h *hops) came(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n >= h.most || time.Since(h.said) > hopsFor {
		h.most, h.said = n, time.Now()
	}
}

// now returns the number of runnels before this one.
func (h *hops) now() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.said) > hopsFor {
		return 0
	}
	return h.most
}
