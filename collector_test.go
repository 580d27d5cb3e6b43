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
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(defaultPercent)
	defer debug.SetGCPercent(before)
	easeCollector()
	follows := func(percent uint64) {
		t.Helper()
		gogc := []runtimemetrics.Sample{{Name: "/gc/gogc:percent"}}
		for deadline := time.Now().Add(time.Minute); ; runtime.GC() {
			if runtimemetrics.Read(gogc); gogc[0].Value.Uint64() == percent {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("GOGC is %d, want %d", gogc[0].Value.Uint64(), percent)
			}
		}
	}
	follows(smallPercent)
	held := make([]byte, 64<<20)
	follows(defaultPercent)
	runtime.KeepAlive(held)
}
