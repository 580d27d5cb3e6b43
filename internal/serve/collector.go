package serve

import (
	"os"
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
)

const (
	// roomyHeap is more than a server has in use, garbage included, while it answers calls and runs few
	// tasks.
	roomyHeap = 12 << 20
	// How much a heap that is much smaller, or much larger, may grow before it is collected, in percent.
	smallPercent, largePercent = 300, 50
)

// EaseCollector makes garbage collections rare as long as little memory is in use. By default the heap is
// collected whenever
// it reaches 4 MiB, which 64 calls in flight fill a hundred times a second: that takes a fifth of a call's
// processor time. A larger heap grows by half, so that a thousand tasks take little more memory than they
// need; it is collected seldom, or is mostly the output of tasks, which has no pointers to follow. Until its
// first collection the heap keeps the default, so that reading the config does not cost 12 MiB for good.
func EaseCollector() {
	if os.Getenv("GOGC") == "" { // the user knows better
		afterCollection(adjustCollector)
	}
}

func adjustCollector() {
	live := []runtimemetrics.Sample{{Name: "/gc/heap/live:bytes"}}
	runtimemetrics.Read(live)
	debug.SetGCPercent(percentFor(live[0].Value.Uint64()))
	afterCollection(adjustCollector)
}

// percentFor returns by how many percent a heap with this many live bytes may grow.
func percentFor(live uint64) int {
	return int(min(max(roomyHeap*100/max(live, 1), largePercent+100)-100, smallPercent))
}

// afterCollection calls f once after the next collection.
func afterCollection(f func()) {
	type garbage struct{ _ *int }
	runtime.SetFinalizer(&garbage{}, func(*garbage) { f() })
}
