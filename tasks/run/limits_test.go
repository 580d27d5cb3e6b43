package run

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestWindowAllowsSoManyInAnyPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := window{limit: 3, period: time.Minute}
		var at []time.Time
		for range 600 {
			if w.claim() {
				at = append(at, time.Now())
			}
			time.Sleep(time.Second)
		}
		if len(at) != 30 {
			t.Errorf("%d in ten minutes", len(at))
		}
		for i := 3; i < len(at); i++ {
			if at[i].Sub(at[i-3]) < time.Minute {
				t.Errorf("four within %v", at[i].Sub(at[i-3]))
			}
		}
	})
}
