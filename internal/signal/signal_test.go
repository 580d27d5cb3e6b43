package signal

import (
	"context"
	"testing"
	"testing/synctest"
)

// A Latch stays set, whoever waits for it and when.
func TestLatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e Latch
		waiting := e.Done()
		woken := false
		go func() { <-waiting; woken = true }()
		synctest.Wait()
		if e.IsSet() || woken {
			t.Error("set too soon")
		}
		e.Set()
		e.Set()
		synctest.Wait()
		if <-e.Done(); !e.IsSet() || !woken {
			t.Error("not set")
		}
		var early Latch
		early.Set()
		<-early.Done()
	})
}

// A wait for a Counter ends when the last one has ended, those that came during the wait included, or with
// its context.
func TestCounter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Counter
		if err := c.Wait(t.Context()); err != nil {
			t.Error("nothing is counted:", err)
		}
		c.Add()
		end := make(chan struct{})
		waited := make(chan error, 1)
		go func() { waited <- c.Wait(context.Background()) }()
		synctest.Wait()
		c.Go(func() { <-end })
		c.Done()
		synctest.Wait()
		if len(waited) > 0 || c.Count() != 1 {
			t.Errorf("%d counted, and the wait has ended %d times", c.Count(), len(waited))
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.Wait(cancelled); err != context.Canceled {
			t.Error("its context has ended:", err)
		}
		close(end)
		if err := <-waited; err != nil || c.Count() != 0 {
			t.Errorf("%v, %d counted", err, c.Count())
		}
	})
}
