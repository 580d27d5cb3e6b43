package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
)

// signalsAsked is done when the process has all signals that it wants; before that nothing is written, and no tool runs. To ask
// for one is a round trip to another thread, 50 µs, and all together were a seventh of a start: it is done beside the rest of it.
// Only the goroutine of main adds to it.
var signalsAsked sync.WaitGroup

// catch keeps signals from having their effect.
func catch(signals ...os.Signal) {
	signalsAsked.Go(func() { signal.Notify(make(chan os.Signal, 1), signals...) })
}

// errInterrupted is why a context ends whose signal has come.
var errInterrupted = errors.New("interrupted")

// notifyContext is signal.NotifyContext, done beside.
func notifyContext(parent context.Context, signals ...os.Signal) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	came := make(chan os.Signal, 1)
	known := make(chan struct{})
	signalsAsked.Go(func() { defer close(known); signal.Notify(came, signals...) })
	go func() {
		select {
		case <-came:
			cancel(errInterrupted)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		<-known
		signal.Stop(came)
		cancel(nil)
	}
}
