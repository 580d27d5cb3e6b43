package serve

import (
	"os"
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
)

const (
	// roomyHeap is more than what is in use, garbage included, while calls are answered and few tasks run.
	roomyHeap = 12 << 20
	// A heap that is much smaller or larger than that may grow by this much, in percent.
	smallPercent, largePercent = 300, 50
)

// EaseCollector makes garbage collections rare as long as little memory is in use. By default the heap is collected whenever
// it has 4 MiB, which 64 calls in flight fill a hundred times a second: a fifth of a call's processor time. A larger
// heap grows by half, so that a thousand tasks take little more memory than they need: it is seldom collected, or holds the output
// of one task, which has no pointers to follow. The heap before its first collection keeps the default, so that reading the config does
// not cost 12 MiB for good.
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

// percentFor returns by how much a heap with so many live bytes may grow.
func percentFor(live uint64) int {
	return int(min(max(roomyHeap*100/max(live, 1), largePercent+100)-100, smallPercent))
}

// afterCollection calls f once after the next collection.
func afterCollection(f func()) {
	type garbage struct{ _ *int }
	runtime.SetFinalizer(&garbage{}, func(*garbage) { f() })
}
