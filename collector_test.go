package main

import (
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"testing"
	"time"
)

// The collector is left to its default as long as much memory is in use, and no longer.
func TestCollectorFollowsTheHeap(t *testing.T) {
	if small, large := percentFor(smallHeap-1), percentFor(smallHeap); small != smallPercent || large != largePercent {
		t.Errorf("%d for a small heap, %d for a large one", small, large)
	}
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(debug.SetGCPercent(smallPercent))
	held := make([]byte, 64<<20)
	easeCollector()
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
