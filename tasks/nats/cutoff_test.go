//go:build unix

package nats

import (
	"context"
	"os"
	"testing"
	"time"

	"runnel/tasks/engine"
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
	cluster.Pause(cluster.Node(state.c.nc.ConnectedUrl()))
	begun := time.Now()
	statetest.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return sp.Lease(ctx) == nil
	})
	if took := time.Since(begun); took > engine.LeaseTTL {
		t.Errorf("the lease was renewed after %v", took)
	}
}
