package main

import (
	"os"
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
)

const (
	// smallHeap is more than is in use while calls are answered and few tasks run.
	smallHeap = 4 << 20
	// smallPercent lets a small heap grow to 12 MiB before it is collected, and defaultPercent lets any double.
	smallPercent, defaultPercent = 300, 100
)

// easeCollector makes garbage collections rare as long as little memory is in use. By default the heap is collected whenever
// it has 4 MiB, which 64 calls in flight fill a hundred times a second: a fifth of a call's processor time. What is not
// small is left to the default, so that a thousand tasks do not take three times the memory they need; and so is the heap before its
// first collection, so that what reads the config does not leave 12 MiB behind.
func easeCollector() {
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
	if live < smallHeap {
		return smallPercent
	}
	return defaultPercent
}

// afterCollection calls f once after the next collection.
func afterCollection(f func()) {
	type garbage struct{ _ *int }
	runtime.SetFinalizer(&garbage{}, func(*garbage) { f() })
}
