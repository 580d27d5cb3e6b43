package tools

import (
	"fmt"
	"time"
)

// report passes on what the tool says of its progress. It waits for its turn on the output, as long as the call
// lasts. What is said before the client may hear of the call is kept, the last of it: a tool that waited there would
// never be done in time for an immediate result.
func (d *delivery) report(done, total float64, message string) {
	if d.progress == nil {
		return
	}
	d.mu.Lock()
	if !d.begun.IsSet() {
		d.early = func() { d.tellProgress(done, total, message) }
		d.mu.Unlock()
		return
	}
	d.mu.Unlock()
	d.tellProgress(done, total, message)
}

func (d *delivery) tellProgress(done, total float64, message string) {
	d.write(func(dst []byte) []byte { return d.progress.Report(dst, done, total, message) })
}

// beat starts the heartbeat: a silent tool is told apart from a hung one, and hosts
// that wait longer while there is progress do. The function it returns ends it.
func (d *delivery) beat() (end func()) {
	if d.heartbeat <= 0 {
		return func() {}
	}
	ended, stop := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		// Looked at twice in a heartbeat, no silence is longer than one.
		t := time.NewTicker(d.heartbeat / 2)
		defer t.Stop()
		began, seen := time.Now(), -1 // -1: silent for less than half a heartbeat
		for {
			select {
			case <-t.C:
			case <-stop:
				return
			case <-d.ctx.Done():
				return
			}
			d.write(func(dst []byte) []byte {
				if n := d.progress.Written(); n != seen {
					seen = n
					return dst
				}
				seen = -1
				return d.progress.Beat(dst, fmt.Appendf(nil, "running for %v", time.Since(began).Round(time.Second)))
			})
		}
	}()
	return func() { close(stop); <-ended }
}

// write writes progress, unless the delivery has ended.
func (d *delivery) write(encode func(dst []byte) []byte) {
	_ = d.lane.Write(&d.ctx, func(dst []byte) []byte {
		d.speech.Lock()
		defer d.speech.Unlock()
		if d.silent { // ended while the lane was waited for
			return dst
		}
		return encode(dst)
	})
}
