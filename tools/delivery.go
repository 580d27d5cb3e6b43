package tools

import (
	"context"

	"runnel/partials"
	"runnel/rpc"
	"runnel/tasks"
)

// delivery is how one call's output reaches the client that made the call. What the client sees is
// decided here, once, from what its request and its capabilities ask for:
//
//	a task, and the client declared tasks.streaming.partial   SEP-2679 carries the output
//	a progress token, and none of the above                   progress notifications show the last line
//	else                                                      the output is in the result only
//
// What a tool reports by Output.Progress goes to a client that gave a token in every case.
type delivery struct {
	caller  *rpc.Caller
	lane    *rpc.Lane
	handle  bool
	streams bool // by SEP-2679
	o       partials.PumpOptions
	begun   chan struct{} // closed by deliver: the handle, if there is one, stands in the output

	// Set by prepare.
	ctx      context.Context
	progress *partials.Progress // nil: no token. Used under the lane's lock only
	pump     *partials.Pump     // nil: the output is in the result only
}

func (s *service) choose(c *rpc.Caller, handle bool) *delivery {
	return &delivery{
		caller:  c,
		lane:    c.Lane(),
		handle:  handle,
		streams: handle && c.Version.Tasks && c.Capabilities.StreamsPartials(),
		o:       s.o.Pump,
		begun:   make(chan struct{}),
	}
}

// prepare is called with the run before it starts, so that its output is read from the beginning.
func (d *delivery) prepare(run *tasks.Run) {
	c := d.caller
	d.ctx = run.Context()
	if token := c.Meta.ProgressToken; len(token) > 0 {
		id := ""
		if d.handle {
			id = run.ID()
		}
		d.progress = partials.NewProgress(c.Head(), token, id, c.Version.ProgressMessage)
	}
	switch {
	case d.streams:
		d.pump = partials.NewPump(run.Log().NewReader(0), partials.NewSEP2679(c.Head(), run.ID()), d.lane, d.o)
	case d.progress != nil:
		d.pump = partials.NewPump(run.Log().NewTail(), d.progress, d.lane, d.o)
	}
	if d.pump != nil {
		run.Follow(d.pump.Stop)
	}
}

// deliver writes the output out until all of it is written.
func (d *delivery) deliver(ctx context.Context) {
	close(d.begun)
	if d.pump != nil {
		_ = d.pump.Run(ctx) // fails when the task is stopped or nobody is there to read it
	}
}

// report passes on what the tool says of its progress. It waits for its turn on the output, as long as the call lasts:
// behind the handle, because the client does not know the task before it.
func (d *delivery) report(done, total float64, message string) {
	if d.progress == nil {
		return
	}
	select {
	case <-d.begun:
	case <-d.ctx.Done():
		return
	}
	_ = d.lane.Write(d.ctx, func(dst []byte) []byte {
		if d.ctx.Err() != nil { // ended while the lane was waited for
			return dst
		}
		return d.progress.Report(dst, done, total, message)
	})
}
