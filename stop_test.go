package main

import (
	"testing"
	"testing/synctest"
	"time"
)

// Upstreams go on until the tasks have ended. A task that waits for one, and for nothing else, keeps runnel no longer than the grace.
func TestStopEndsUpstreamsUnderTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		gone := make(chan struct{})
		stopTasks(func() { <-gone }, func() { close(gone) })
		if took := time.Since(began); took != taskGrace {
			t.Errorf("stopped after %v", took)
		}
		stopTasks(func() { time.Sleep(taskGrace / 2) }, func() { t.Error("upstreams are ended under tasks that end by themselves") })
		time.Sleep(taskGrace)
	})
}
