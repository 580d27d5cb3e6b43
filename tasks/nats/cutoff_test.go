//go:build unix

package nats

import (
	"os"
	"testing"
	"time"

	"runnel/tasks/nats/natstest"
	"runnel/tasks/statetest"
)

// A process whose server is cut off from it, while the connection stays, goes on at another one before its lease has run out.
func TestServerIsCutOff(t *testing.T) {
	t.Parallel()
	cluster := natstest.Start(t, 3, os.Environ())
	state := newState(t, cluster.URL(), func(o *Options) { o.Replicas = 3 })
	sp := spaceOf(t, state)
	cluster.Whole()
	cluster.Pause(cluster.Node(state.nc.ConnectedUrl()))
	begun := time.Now()
	statetest.Eventually(t, func() bool {
		sp.mu.Lock()
		defer sp.mu.Unlock()
		return sp.renewed.After(begun)
	})
	if took := time.Since(begun); took > leaseTTL {
		t.Errorf("the lease was renewed after %v", took)
	}
}
