package logs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"runnel/internal/signal"
	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/feed"
	"runnel/tasks/methods"
	"runnel/tasks/run"
)

// subscription is one subscriptions/listen request.
type subscription struct {
	server *server
	caller *rpc.Caller
	meta   json.RawMessage // the _meta with the subscription's id
	agreed mcp.SubscriptionFilter

	acknowledged    signal.Latch
	ending, endless sync.WaitGroup // the feeds that end with their task, and the others
}

// feed announces changes of one thing that is already watched: announce begins after the acknowledgement, and
// misses nothing. announce returns when ctx ends or nothing more will change; release ends the watching.
func (l *subscription) feed(ctx context.Context, group *sync.WaitGroup, release func(),
	announce func(ctx context.Context)) {
	group.Go(func() {
		defer release()
		select {
		case <-l.acknowledged.Done():
			announce(ctx)
		case <-ctx.Done():
		}
	})
}

// listen answers subscriptions/listen: the request stays open, and changes of what it asks for are announced
// in notifications that carry its id (2026-07-28 basic/patterns/subscriptions). It is answered when the
// server ends it.
func (s *server) listen(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
	wanted, err := listenParams(c, params)
	if err != nil {
		return nil, err
	}
	l := &subscription{server: s, caller: c,
		meta: fmt.Appendf(nil, `{%q:%s}`, mcp.MetaSubscriptionID, c.ID())}
	defer l.endless.Wait()
	defer l.ending.Wait()
	following, stop := context.WithCancel(ctx)
	defer stop() // first
	if err := l.watchAll(following, wanted); err != nil {
		return nil, err
	}
	// "The server MUST send notifications/subscriptions/acknowledged as the first message"
	if err := l.notify(ctx, "notifications/subscriptions/acknowledged", struct {
		Notifications mcp.SubscriptionFilter `json:"notifications"`
	}{l.agreed}); err != nil {
		return nil, err
	}
	l.acknowledged.Set()
	allEnded := make(chan struct{})
	go func() { l.ending.Wait(); close(allEnded) }()
	select {
	case <-c.InputEnded():
		if c.Patient() {
			select {
			case <-allEnded:
			case <-ctx.Done():
			}
		}
	case <-ctx.Done():
	}
	// A "graceful end".
	return struct {
		ResultType mcp.ResultType  `json:"resultType"`
		Meta       json.RawMessage `json:"_meta"`
	}{mcp.ResultComplete, l.meta}, nil
}

// watchAll begins to watch what is wanted, and agrees to what of it exists.
func (l *subscription) watchAll(ctx context.Context, wanted *mcp.SubscriptionFilter) error {
	for _, id := range wanted.TaskIDs {
		if err := l.watchTask(ctx, id); err != nil {
			return err
		}
	}
	for _, uri := range wanted.ResourceSubscriptions {
		if slices.Contains(l.agreed.ResourceSubscriptions, uri) {
			continue
		}
		if l.watchResource(ctx, uri) {
			l.agreed.ResourceSubscriptions = append(l.agreed.ResourceSubscriptions, uri)
		}
	}
	if wanted.ToolsListChanged {
		l.agreed.ToolsListChanged = true
		l.watchList(ctx, "notifications/tools/list_changed", l.server.o.Tools)
	}
	if !l.server.hasOthers(l.caller) {
		return nil
	}
	prompts, resources := l.server.o.Others.Changes()
	if wanted.PromptsListChanged {
		l.agreed.PromptsListChanged = true
		l.watchList(ctx, "notifications/prompts/list_changed", prompts)
	}
	if wanted.ResourcesListChanged {
		l.agreed.ResourcesListChanged = true
		l.watchList(ctx, "notifications/resources/list_changed", resources)
	}
	return nil
}

// watchList announces changes of a list.
func (l *subscription) watchList(ctx context.Context, method string, list *signal.Broadcast) {
	changed, stop := list.Watch()
	l.feed(ctx, &l.endless, stop, func(ctx context.Context) {
		rpc.Announce(ctx, changed, func() error { return l.notify(ctx, method, nil) })
	})
}

// watchTask announces changes of a task, if it exists.
func (l *subscription) watchTask(ctx context.Context, id string) error {
	if slices.Contains(l.agreed.TaskIDs, id) {
		return nil
	}
	run, release, err := l.server.runner.Follow(ctx, id)
	if errors.Is(err, tasks.ErrNotFound) {
		return nil
	} else if err != nil {
		return tasks.WireError(err)
	}
	l.agreed.TaskIDs = append(l.agreed.TaskIDs, id)
	if run == nil {
		l.feed(ctx, &l.ending, release, func(ctx context.Context) { l.writeEnded(ctx, id) })
		return nil
	}
	changed, stop := run.Watch()
	l.feed(ctx, &l.ending, func() { stop(); release() },
		func(ctx context.Context) { l.follow(ctx, run, changed) })
	return nil
}

// watchResource announces changes of a log, or of another server's resource, and reports whether it exists.
func (l *subscription) watchResource(ctx context.Context, uri string) bool {
	if l.server.isForeign(l.caller, uri) {
		return l.watchForeign(ctx, uri)
	}
	id, _, err := ParseURI(uri)
	if err != nil {
		return false
	}
	t, err := l.server.runner.Head(ctx, id)
	if err == nil && !t.Status.Terminal() { // otherwise nothing will change
		size := t.Log.Size() // output after it is announced
		l.feed(ctx, &l.ending, func() {}, func(ctx context.Context) {
			l.server.watchLog(ctx, id, size,
				func() error { return l.notify(ctx, resourceUpdated, mcp.ResourceParams{URI: uri}) })
		})
	}
	return err == nil
}

// maxUpdates is how many updates of another server's resource wait for a client that does not read. Further
// ones are dropped.
const maxUpdates = 100

// watchForeign is watchResource for a resource of another server.
func (l *subscription) watchForeign(ctx context.Context, uri string) bool {
	updates := make(chan json.RawMessage, maxUpdates)
	stop, err := l.server.o.Others.Subscribe(ctx, l.caller, uri, func(params json.RawMessage) {
		select {
		case updates <- bytes.Clone(params):
		default:
		}
	})
	if err != nil {
		return false
	}
	l.feed(ctx, &l.endless, stop, func(ctx context.Context) {
		for {
			select {
			case params := <-updates:
				if l.caller.NotifyWait(ctx, resourceUpdated,
					rawjson.WithMember(params, "_meta", l.meta)) != nil {
					return // the client has left
				}
			case <-ctx.Done():
				return
			}
		}
	})
	return true
}

// listenParams reads what a client wants to listen for.
func listenParams(c *rpc.Caller, params json.RawMessage) (*mcp.SubscriptionFilter, error) {
	var p mcp.ListenParams
	if err := rpc.ReadParam("params", params, &p); err != nil {
		return nil, err
	}
	if p.Notifications == nil {
		return nil, rpc.Errorf(mcp.CodeInvalidParams,
			"params.notifications must be an object that names what to listen for")
	}
	if p.Notifications.TaskIDs != nil {
		if err := methods.NeedTasks(c); err != nil {
			return nil, err
		}
	}
	if len(p.Notifications.TaskIDs) > maxTaskIDs {
		return nil, rpc.Errorf(mcp.CodeInvalidParams,
			"params.notifications.taskIds: too many: the limit is %d", maxTaskIDs)
	}
	if len(p.Notifications.ResourceSubscriptions) > maxResourceURIs {
		return nil, rpc.Errorf(mcp.CodeInvalidParams,
			"params.notifications.resourceSubscriptions: too many: the limit is %d", maxResourceURIs)
	}
	return p.Notifications, nil
}

// maxTaskIDs limits how many tasks one subscription looks up, and the goroutines that it starts.
const maxTaskIDs = 1000

// maxResourceURIs limits the goroutines that one subscription starts: a log has any number of URIs.
const maxResourceURIs = maxSubscriptions

// notify writes a notification of the subscription when the client has read the earlier ones.
func (l *subscription) notify(ctx context.Context, method string, params any) error {
	line := l.line(method, params)
	return l.caller.Write(ctx, func(dst []byte) []byte { return append(dst, line...) })
}

func (l *subscription) line(method string, params any) []byte {
	encoded := []byte("{}")
	if params != nil {
		encoded = rawjson.Encode(params)
	}
	line := fmt.Appendf(nil, `%s,"method":%q,"params":{"_meta":%s`, l.caller.Head(), method, l.meta)
	if len(encoded) > len("{}") {
		line = append(append(line, ','), encoded[1:len(encoded)-1]...)
	}
	return append(line, '}', '}', '\n')
}

// writeEnded announces a task that has ended.
func (l *subscription) writeEnded(ctx context.Context, id string) {
	if t, err := l.server.runner.Head(ctx, id); err == nil {
		l.writeOutput(ctx, id, t.Log)
	}
	if t, err := l.server.runner.Detailed(ctx, id); err == nil {
		l.writeTask(ctx, t)
	}
}

// follow announces a task's changes until it has ended: its state on every change, and its output. A client
// that declared runnel/task-partials gets all of the output; any other gets its last line, in the state.
func (l *subscription) follow(ctx context.Context, run *run.View, changes <-chan struct{}) {
	output := func(ctx context.Context) error {
		if l.takesPartials() {
			l.writeOutput(ctx, run.ID(), run.Log())
		} else {
			l.writeLines(ctx, run)
		}
		return nil
	}
	err := feed.Follow(ctx, run, changes, output, func() {
		if t := run.Detailed(); !t.Status.Terminal() {
			l.writeTask(ctx, t)
		}
	})
	if err == nil {
		l.writeTask(ctx, run.Detailed()) // not from the state: that forgets a task whose ttl is over
	}
}

// writeTask writes the task's state, "identical to what tasks/get would have returned at that moment".
func (l *subscription) writeTask(ctx context.Context, t mcp.DetailedTask) {
	// The variables change without a notification, so they are left out; notify sets _meta.
	t.Meta = nil
	// Fails only when the client has left.
	_ = l.notify(ctx, "notifications/tasks", methods.Readable(l.caller, t))
}

func (l *subscription) takesPartials() bool {
	return l.caller.Capabilities.Extends(mcp.ExtensionTaskPartials)
}

// writeLines writes the task's state when its last line of output has changed, as often as to a client of
// 2025-11-25.
func (l *subscription) writeLines(ctx context.Context, task *run.View) {
	pace := max(l.server.o.Deliver.Pace, run.LinePace)
	dialect := partials.EndlessDialect(func(dst []byte, _ partials.Batch) []byte {
		t := task.Detailed()
		if t.Status != mcp.TaskWorking || t.StatusMessage == "" {
			return dst
		}
		t.Meta = nil
		return append(dst, l.line("notifications/tasks", t)...)
	})
	// Fails when the client has left.
	_ = partials.DeliverLastLine(ctx, task.Log(), dialect, l.caller, pace, true)
}

// writeOutput writes the task's output as partials, if the client asked for them.
func (l *subscription) writeOutput(ctx context.Context, id string, log *partials.Log) {
	if !l.takesPartials() {
		return
	}
	dialect := partials.NewSEP2679(l.caller.Head(), id, l.meta)
	// Fails when the client has left.
	_ = partials.Deliver(ctx, log.NewReader(0), dialect, l.caller, l.server.o.Deliver)
}
