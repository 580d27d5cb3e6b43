package engine

import (
	"testing"
	"testing/synctest"
	"time"
)

// All who wait hear at once that somebody asks, whichever owner each of them serves.
func TestHeedOfSeveralOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(nil, "nowhere", Options{})
		began, heard := time.Now(), make(chan time.Duration)
		for range 5 {
			go func() {
				_, _, _ = s.Space("local").Heed(t.Context())
				heard <- time.Since(began)
			}()
		}
		synctest.Wait()
		s.Space("local").Notice()
		for range 5 {
			if after := <-heard; after > 0 {
				t.Errorf("one hears after %v", after)
			}
		}
	})
}
