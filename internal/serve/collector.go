package serve

import (
	"os"
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
)

const (
	// roomyHeap is more than there is in use, with its garbage, while calls are answered and few tasks run.
	roomyHeap = 12 << 20
	// What is much smaller or larger than that may grow by so much, in percent.
	smallPercent, largePercent = 300, 50
)

// EaseCollector makes garbage collections rare as long as little memory is in use. By default the heap is collected whenever
// it has 4 MiB, which 64 calls in flight fill a hundred times a second: a fifth of a call's processor time. What is not
// small grows by half, so that a thousand tasks take little more memory than they need: that is seldom collected, or holds the
// output of one task, in which there is nothing to look for. The heap before its first collection is left to the default,
// so that what reads the config does not leave 12 MiB behind.
func EaseCollector() {
	if os.Getenv("GOGC") == "" { // who sets it knows better
		afterCollection(adjustCollector)
	}
}

func adjustCollector() {
	live := []runtimemetrics.Sample{{Name: "/gc/heap/live:bytes"}}
	runtimemetrics.Read(live)
	debug.SetGCPercent(percentFor(live[0].Value.Uint64()))
	afterCollection(adjustCollector)
}

// percentFor is by how much a heap may grow of which live bytes are in use.
func percentFor(live uint64) int {
	return int(min(max(roomyHeap*100/max(live, 1), largePercent+100)-100, smallPercent))
}

// afterCollection calls f once after the next collection.
func afterCollection(f func()) {
	type garbage struct{ _ *int }
	runtime.SetFinalizer(&garbage{}, func(*garbage) { f() })
}
