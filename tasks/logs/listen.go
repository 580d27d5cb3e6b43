package logs

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
)

// listen answers subscriptions/listen: the request stays open, and what it asked for is told in notifications that carry
// its id (2026-07-28 basic/patterns/subscriptions). It is answered when the server ends it.
func (s *server) listen(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
	wanted, err := listenParams(c, params)
	if err != nil {
		return nil, err
	}
	l := &subscription{server: s, caller: c, lane: c.Lane(), meta: fmt.Appendf(nil, `{%q:%s}`, mcp.MetaSubscriptionID, c.ID())}
	agreed := mcp.SubscriptionFilter{ToolsListChanged: wanted.ToolsListChanged}
	var follow []*followed
	for _, id := range wanted.TaskIDs {
		if _, err := s.runner.Head(ctx, id); err != nil || slices.Contains(agreed.TaskIDs, id) {
			continue // what is not there is not agreed to
		}
		f, err := s.follow(ctx, id)
		if err != nil {
			return nil, err
		}
		defer f.release()
		agreed.TaskIDs, follow = append(agreed.TaskIDs, id), append(follow, f)
	}
	var logs []watchedLog
	if logs, agreed.ResourceSubscriptions, err = s.watchedLogs(ctx, wanted.ResourceSubscriptions); err != nil {
		return nil, err
	}
	var prompts, resources *rpc.Broadcast
	if s.hasOthers(c) {
		prompts, resources = s.o.Others.Changes()
		agreed.PromptsListChanged, agreed.ResourcesListChanged = wanted.PromptsListChanged, wanted.ResourcesListChanged
	}
	changes := map[string]<-chan struct{}{}
	for _, list := range []struct {
		name   string
		agreed bool
		*rpc.Broadcast
	}{
		{"tools", agreed.ToolsListChanged, s.o.Tools},
		{"prompts", agreed.PromptsListChanged, prompts}, {"resources", agreed.ResourcesListChanged, resources},
	} {
		if list.agreed {
			changed, stop := list.Watch()
			defer stop()
			changes["notifications/"+list.name+"/list_changed"] = changed
		}
	}
	updates, beginUpdates, stopUpdates := s.watchOthers(ctx, c, l.meta, wanted.ResourceSubscriptions)
	defer stopUpdates()
	agreed.ResourceSubscriptions = append(agreed.ResourceSubscriptions, updates...)
	// "The server MUST send notifications/subscriptions/acknowledged as the first message"
	if err := l.notify(ctx, "notifications/subscriptions/acknowledged", struct {
		Notifications mcp.SubscriptionFilter `json:"notifications"`
	}{agreed}); err != nil {
		return nil, err
	}
	beginUpdates()
	var wg, lists sync.WaitGroup
	defer lists.Wait()
	defer wg.Wait()
	following, stop := context.WithCancel(ctx)
	defer stop() // first
	for method, changed := range changes {
		lists.Go(func() { rpc.Announce(following, changed, func() error { return l.notify(following, method, nil) }) })
	}
	for _, f := range follow {
		wg.Go(func() { l.follow(following, f) })
	}
	for _, log := range logs {
		if !log.task.Status.Terminal() { // else nothing will change
			wg.Go(func() { l.watchLog(following, log) })
		}
	}
	told := make(chan struct{})
	go func() { wg.Wait(); close(told) }()
	select {
	case <-c.InputEnded():
		if c.Patient() {
			select {
			case <-told:
			case <-ctx.Done():
			}
		}
	case <-ctx.Done():
	}
	return l.closed(), nil
}

// listenParams reads what a client wants to be told.
func listenParams(c *rpc.Caller, params json.RawMessage) (*mcp.SubscriptionFilter, error) {
	var p mcp.ListenParams
	if err := rpc.ReadParam("params", params, &p); err != nil {
		return nil, err
	}
	if p.Notifications == nil {
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "params.notifications must be an object that names what to listen for")
	}
	if p.Notifications.TaskIDs != nil {
		if err := tasks.NeedTasks(c); err != nil {
			return nil, err
		}
	}
	if len(p.Notifications.TaskIDs) > maxTaskIDs {
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "params.notifications.taskIds: too many: the limit is %d", maxTaskIDs)
	}
	return p.Notifications, nil
}

// maxTaskIDs bounds what one subscription looks up, and the goroutines that it starts.
const maxTaskIDs = 1000

// followed is a task that a subscription tells about.
type followed struct {
	id      string
	run     *tasks.Run // nil: it has ended
	changed <-chan struct{}
	release func()
}

// follow begins to follow a task. It is called before the acknowledgement: from there on nothing is missed.
func (s *server) follow(ctx context.Context, id string) (*followed, error) {
	run, release, err := s.runner.Follow(ctx, id)
	if err != nil {
		return nil, tasks.WireError(err)
	}
	f := &followed{id: id, run: run, release: release}
	if run != nil {
		changed, stop := run.Watch()
		f.changed, f.release = changed, func() { stop(); release() }
	}
	return f, nil
}

// subscription is one subscriptions/listen request.
type subscription struct {
	server *server
	caller *rpc.Caller
	lane   *rpc.Lane
	meta   json.RawMessage // with the subscription's id
}

// closed is the answer that tells a "graceful end".
func (l *subscription) closed() any {
	return struct {
		ResultType mcp.ResultType  `json:"resultType"`
		Meta       json.RawMessage `json:"_meta"`
	}{mcp.ResultComplete, l.meta}
}

// notify writes a notification on the subscription, when the client has read what came before.
func (l *subscription) notify(ctx context.Context, method string, params any) error {
	line := l.line(method, params)
	return l.lane.Write(ctx, func(dst []byte) []byte { return append(dst, line...) })
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

// follow tells of a task until it has ended: its state on every change and its output. Of that, a client that declared
// runnel/task-partials is told all from the beginning of its log, and every other one the last line, in the state.
func (l *subscription) follow(ctx context.Context, f *followed) {
	if f.run == nil {
		l.tellOutput(ctx, f.id, l.server.logOf(ctx, f.id))
		if t, err := l.server.runner.Detailed(ctx, f.id); err == nil {
			l.tell(ctx, t)
		}
		return
	}
	output := make(chan struct{})
	go func() {
		defer close(output)
		if l.takesPartials() {
			l.tellOutput(ctx, f.id, f.run.Log())
		} else {
			l.tellLines(ctx, f.run)
		}
	}()
	if t := f.run.Detailed(); t.Status == mcp.TaskInputRequired {
		l.tell(ctx, t)
	}
	for {
		select {
		case <-f.changed:
			if t := f.run.Detailed(); !t.Status.Terminal() {
				l.tell(ctx, t)
			}
		case <-f.run.Ended():
			<-output                      // the last partial comes before the terminal status
			l.tell(ctx, f.run.Detailed()) // of the run: the store forgets a task whose ttl is over
			return
		case <-ctx.Done():
			<-output
			return
		}
	}
}

// tell writes the task's state, "identical to what tasks/get would have returned at that moment".
func (l *subscription) tell(ctx context.Context, t mcp.DetailedTask) {
	t.Meta = nil                                // variables change without a notification; the subscription's id stands here
	_ = l.notify(ctx, "notifications/tasks", t) // fails only when nobody is there to read it
}

func (l *subscription) takesPartials() bool {
	return l.caller.Capabilities.Extends(mcp.ExtensionTaskPartials)
}

// tellLines writes the task's state when its last line of output has changed, as often as to a client of 2025-11-25.
func (l *subscription) tellLines(ctx context.Context, run *tasks.Run) {
	o := partials.PumpOptions{Pace: max(l.server.o.Pump.Pace, tasks.LinePace), Sparse: true}
	_ = partials.NewPump(run.Log().NewTail(), &lineDialect{l, run}, l.lane, o).Run(ctx) // fails when nobody is there to read it
}

// lineDialect shows the last line of output as the statusMessage of a working task on a subscription. It goes with a tail reader.
type lineDialect struct {
	*subscription
	run *tasks.Run
}

func (d *lineDialect) Encode(dst []byte, _ partials.Batch) []byte {
	t := d.run.Detailed()
	if t.Status != mcp.TaskWorking || t.StatusMessage == "" {
		return dst
	}
	t.Meta = nil
	return append(dst, d.line("notifications/tasks", t)...)
}

func (d *lineDialect) End(dst []byte) []byte { return dst }

// tellOutput writes the task's output as partials, if the client asked for them.
func (l *subscription) tellOutput(ctx context.Context, id string, log *partials.Log) {
	if log == nil || !l.takesPartials() {
		return
	}
	dialect := partials.NewSEP2679OnSubscription(l.caller.Head(), id, l.meta)
	_ = partials.NewPump(log.NewReader(0), dialect, l.lane, l.server.o.Pump).Run(ctx) // fails when nobody is there to read it
}

// logOf is the log of a task that has ended, nil if there is none.
func (s *server) logOf(ctx context.Context, id string) *partials.Log {
	t, err := s.runner.Head(ctx, id)
	if err != nil {
		return nil
	}
	return t.Log
}

// watchOthers subscribes to those of some resources that are other servers'; what is not there is not agreed to. Nothing is told before begin.
func (s *server) watchOthers(ctx context.Context, c *rpc.Caller, meta json.RawMessage, uris []string) (agreed []string, begin, stop func()) {
	updates := earlyUpdates{tell: func(params json.RawMessage) {
		_ = c.TryNotify("notifications/resources/updated", params) // as in subscribeOthers
	}}
	var stops []func()
	for _, uri := range uris {
		if !s.isForeign(c, uri) || slices.Contains(agreed, uri) {
			continue
		}
		end, err := s.o.Others.Subscribe(ctx, c, uri, func(params json.RawMessage) { updates.add(rawjson.WithMember(params, "_meta", meta)) })
		if err == nil {
			agreed, stops = append(agreed, uri), append(stops, end)
		}
	}
	return agreed, updates.begin, func() {
		for _, end := range stops {
			end()
		}
	}
}

// maxEarly is how much of updates waits for the acknowledgement of their subscription, in bytes. What is above it is dropped.
const maxEarly = 64 << 10

// earlyUpdates keeps updates until the subscription has been acknowledged.
type earlyUpdates struct {
	tell func(params json.RawMessage)

	mu    sync.Mutex
	begun bool
	kept  []json.RawMessage
	size  int // of kept
}

func (e *earlyUpdates) add(params json.RawMessage) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.begun:
		e.tell(params)
	case e.size+len(params) <= maxEarly:
		e.kept, e.size = append(e.kept, params), e.size+len(params)
	}
}

func (e *earlyUpdates) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, params := range e.kept {
		e.tell(params)
	}
	e.kept, e.begun = nil, true
}
