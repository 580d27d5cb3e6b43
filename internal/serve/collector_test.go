package serve

import (
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"testing"
	"time"
)

// A heap may grow by half as long as much memory is in use, and by more when little is.
func TestCollectorFollowsTheHeap(t *testing.T) {
	for live, want := range map[uint64]int{0: smallPercent, roomyHeap / 4: smallPercent, roomyHeap / 2: 100,
		roomyHeap: largePercent, 1 << 40: largePercent} {
		if got := percentFor(live); got != want {
			t.Errorf("a heap of %d bytes may grow by %d %%, want %d", live, got, want)
		}
	}
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(debug.SetGCPercent(smallPercent))
	held := make([]byte, 64<<20)
	EaseCollector()
	gogc := []runtimemetrics.Sample{{Name: "/gc/gogc:percent"}}
	for deadline := time.Now().Add(time.Minute); ; runtime.GC() {
		if runtimemetrics.Read(gogc); gogc[0].Value.Uint64() == largePercent {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("GOGC is %d with 64 MiB in use", gogc[0].Value.Uint64())
		}
	}
	runtime.KeepAlive(held)
}
