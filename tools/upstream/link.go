package upstream

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"runnel/internal/pause"
	"runnel/internal/signal"
	"runnel/rpc"
	httpclient "runnel/rpc/http/client"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tools"
	"runnel/tools/process"
)

// link is one connection to a server, with the calls on it. The rpc.Client's reader hands out each message.
// If a call's output has to wait for runnel's own client, the reader waits, and so does the server: nothing
// is stored in between.
//
// A message of a server about a call names the call's token or task. If it names neither, a rule for its kind
// decides where it belongs.
type link struct {
	*definition
	session *session
	subs    *subscriptions
	client  *rpc.Client
	stderr  lastWords
	silence silence
	changed map[string]chan struct{} // by the method of a list, capacity 1: it has changed

	forwards forwards
	ready    signal.Latch // set when calls may come (prepare)
	asked    atomic.Bool  // the server has sent a request

	ended context.Context // its cause is how the server ended; only the first call of end counts
	end   context.CancelCauseFunc

	mu    sync.Mutex
	last  int     // the last token
	calls []*call // oldest first
}

func newLink(def *definition, session *session, subs *subscriptions) *link {
	l := &link{definition: def, session: session, subs: subs,
		stderr:  lastWords{log: def.log, hidden: def.secrets.Set().Stream()},
		changed: map[string]chan struct{}{}}
	for _, kind := range listKinds {
		l.changed[kind.method] = make(chan struct{}, 1)
	}
	l.ended, l.end = context.WithCancelCause(context.Background())
	return l
}

// why returns how the server ended, if that made a request fail.
func (l *link) why(err error) error {
	if !errors.Is(err, rpc.ErrClosed) {
		return err
	}
	select {
	case <-l.ended.Done():
		return context.Cause(l.ended)
	case <-time.After(l.times.exit): // it has closed its output, but still runs
		return err
	}
}

// begin makes a call, to which the server owes an answer until end.
func (l *link) begin(in *tools.Call, out *tools.Output, tool *mcp.Tool) (c *call, end func()) {
	paid := l.silence.owe()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	c = &call{link: l, in: in, caller: in.Caller(), out: out, token: fmt.Appendf(nil, `"%d"`, l.last)}
	c.follow(tool)
	l.calls = append(l.calls, c)
	return c, func() {
		paid()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.calls = slices.DeleteFunc(l.calls, func(other *call) bool { return other == c })
	}
}

const (
	// rootsPatience bounds how long the first calls wait for a server to get its client's roots.
	rootsPatience = 5 * time.Second
	// rootsPause is what the server may need to look at the folders, which it does not tell.
	rootsPause = 100 * time.Millisecond
)

// prepare lets calls come when a new server has the client's roots. A server asks for them as soon as it is
// told that the client is initialized, and server-filesystem denies every file to a call that comes before.
// The answer to a ping comes after that question.
func (l *link) prepare(roots bool) {
	defer l.ready.Set()
	// A stateless client gets the question in the answer to its next request.
	if !roots || l.session.stateless() {
		return
	}
	ctx, cancel := context.WithTimeout(l.client.Context(), rootsPatience)
	defer cancel()
	_ = l.client.Call(ctx, "ping", nil, nil) // an error is an answer, too
	if l.client.AwaitAnswers(ctx); l.asked.Load() {
		pause.For(ctx, rootsPause)
	}
}

// inFlight returns the calls that have not ended.
func (l *link) inFlight() []*call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.calls)
}

// listen subscribes to changes of the lists of a server of the stateless era. It ends with the connection, or
// when the server does not take the subscription.
func (l *link) listen() {
	if l.client.Era() != rpc.Stateless {
		return
	}
	filter := &mcp.SubscriptionFilter{ToolsListChanged: true, PromptsListChanged: true,
		ResourcesListChanged: true}
	err := l.client.Listen(l.client.Context(),
		&rpc.Request{Method: "subscriptions/listen", Params: mcp.ListenParams{Notifications: filter}},
		l.listsChanged)
	if err != nil && l.client.Err() == nil {
		l.log.Debug().Err(err).Msg("upstream does not announce changes of its lists")
	}
}

// listsChanged has all lists read again: a subscription to their changes was interrupted.
func (l *link) listsChanged() { l.listChanged(toolList, promptList, resourceList, templateList) }

// listChanged has lists read again.
func (l *link) listChanged(methods ...string) {
	for _, method := range methods {
		select {
		case l.changed[method] <- struct{}{}:
		default:
		}
	}
}

// notification takes a notification from the server.
func (l *link) notification(method string, params json.RawMessage) {
	switch method {
	case "notifications/tools/list_changed":
		l.listChanged(toolList)
	case "notifications/prompts/list_changed":
		l.listChanged(promptList)
	case "notifications/resources/list_changed":
		l.listChanged(resourceList, templateList)
	case "notifications/resources/updated":
		l.subs.updated(params, l.secrets.Set())
	case "notifications/message":
		c := l.only(params)
		params = l.secrets.Set().JSON(params)
		if c == nil {
			l.session.logMessage(nil, params)
			l.log.Debug().Bytes("says", params[:min(len(params), maxLogLine)]).
				Msg("upstream says something outside of any single call")
			return
		}
		l.session.logMessage(c.caller, params)
		c.logLine(params)
	case "notifications/progress":
		if c := l.find(params); c != nil {
			c.remote.Notification(method, params)
			c.progress(params)
		} else {
			l.forwards.progress(params, l.secrets.Set())
		}
	case "notifications/cancelled": // package rpc has ended the request
	default:
		if c := l.find(params); c != nil {
			c.remote.Notification(method, params)
			return
		}
		if method != "notifications/tasks" && method != "notifications/subscriptions/acknowledged" &&
			!strings.HasPrefix(method, "notifications/tasks/") &&
			method != "notifications/tools/partial_result" {
			l.session.tell(method, l.secrets.Set().JSON(toClient(params)))
			return
		}
		// It belongs to a task whose handle has not come yet, or to nothing.
		for _, c := range l.inFlight() {
			if c.remote.Tracker().TaskID() == "" {
				c.remote.Notification(method, params)
			}
		}
	}
}

// request passes a request from the server to the client of the call that it belongs to, or to the session if
// no call can be found. A client of the stateless era has no session: any of its calls may carry the request,
// and without one it waits for the next.
func (l *link) request(ctx context.Context, method string, params json.RawMessage) (any, error) {
	l.asked.Store(true)
	stateless := l.session.stateless()
	// Roots are about no call or request: if the one that carries the question ends, the next carries it.
	roots := stateless && method == "roots/list"
	c := l.only(params)
	if c == nil && (stateless || isForm(method, params)) {
		var err error
		if c, err = l.asks(); err != nil {
			return nil, err
		}
	}
	if c == nil {
		theirs := l.secrets.Set().JSON(toClient(params))
		if answer, ok, err := l.forwards.ask(ctx, method, theirs); ok &&
			(!roots || !errors.Is(err, errAnswered)) {
			return answer, err
		}
		if stateless && !tools.CanDo(l.session.first.Load(), method, params) {
			return nil, rpc.Errorf(mcp.CodeMethodNotFound, "%s: the client does not support it", method)
		}
		if stateless {
			return l.forwards.hold(ctx, method, theirs)
		}
		return l.session.request(ctx, method, theirs)
	}
	answer, err := c.request(ctx, method, params)
	if roots && errors.Is(err, tasks.ErrEnded) {
		return l.forwards.hold(ctx, method, l.secrets.Set().JSON(toClient(params)))
	}
	if errors.Is(err, tools.ErrCannotAsk) {
		err = rpc.Errorf(mcp.CodeMethodNotFound, "%v", err)
	}
	return answer, err
}

// asks returns the call that a form belongs to if it names no task and several calls are in flight: the
// newest, unless the calls come from several clients. It returns nil if there is none.
func (l *link) asks() (newest *call, err error) {
	calls := l.inFlight()
	if len(calls) == 0 {
		return nil, nil
	}
	newest = calls[len(calls)-1]
	for _, c := range calls {
		if c != newest && (c.caller == nil || newest.caller == nil ||
			!bytes.Equal(c.caller.Head(), newest.caller.Head())) {
			return nil, rpc.Errorf(mcp.CodeInternalError,
				"the question names no task, and %d calls of several clients are under way: the server "+
					"must name the task of the one that it asks", len(calls))
		}
	}
	return newest, nil
}

// only returns the call that a message must belong to: the one that it names, or the only one in flight.
func (l *link) only(params json.RawMessage) *call {
	if c := l.find(params); c != nil {
		return c
	}
	if calls := l.inFlight(); len(calls) == 1 {
		return calls[0]
	}
	return nil
}

// find returns the call that a message names by its token or its task.
func (l *link) find(params json.RawMessage) *call {
	var token, meta []byte
	task := ""
	for it := rawjson.Over(params); it.Next(); {
		switch string(it.Name) {
		case "progressToken", "partialResultToken":
			token = it.Value
		case "taskId":
			task = rawjson.Unquote(it.Value)
		case "_meta":
			meta = it.Value
		}
	}
	if task == "" {
		task = rawjson.StringMember(rawjson.Member(meta, mcp.MetaRelatedTask), "taskId")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.calls {
		if token != nil && bytes.Equal(token, c.token) || task != "" && task == c.remote.Tracker().TaskID() {
			return c
		}
	}
	return nil
}

// hopsAfter returns how many runnels stand before the server.
func (l *link) hopsAfter() int { return max(l.hops, l.session.hops.now()) + 1 }

// dial starts or reaches the server and makes the connection.
func (l *link) dial(ctx context.Context, o rpc.DialOptions) (err error) {
	if l.config.URL != "" {
		if l.atErr == nil {
			at := l.at
			at.Hops = l.hopsAfter
			l.client, err = httpclient.Dial(ctx, at, o)
		}
		return cmp.Or(l.atErr, err)
	}
	program, err := l.Program()
	if err != nil {
		return err
	}
	process.SealInherited()
	process.TieChildren()
	mark := process.NewMark()
	o.Command = append([]string{program}, l.config.Command[1:]...)
	// Replacing runnel's own.
	o.Env = append(slices.Clip(l.env), mark, fmt.Sprintf("%s=%d", hopsVariable, l.hopsAfter()))
	o.Dir = l.dir
	o.Stderr, o.OnStart = &l.stderr, l.stderr.forget
	o.Guard = l.guard
	if l.sandbox != nil {
		o.Start, o.Guard = l.confined()
	}
	o.EndGroup = func(pgid int) { process.EndFamily(pgid, mark) }
	defer process.GuardMark(mark)() // l.guard follows
	if l.client, err = rpc.Dial(ctx, o); err != nil {
		return fmt.Errorf("cannot start: %w", err)
	}
	return nil
}

// guard makes the guard process end the server's processes if runnel is killed.
func (l *link) guard(pgid int) (release func()) {
	if err := process.Guard(pgid); err != nil {
		l.log.Warn().Err(err).Msg("a server is not guarded: it may outlive a runnel that is killed")
	}
	return func() { process.Release(pgid) }
}
