package signal

import (
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
