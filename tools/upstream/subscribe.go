package upstream

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks/logs"
)

// subscriptions are the resources of an upstream's that somebody wants to hear of. They outlive a connection.
type subscriptions struct {
	mu    sync.Mutex
	byURI map[string]*subscription
}

// subscription is one resource. The server is asked once, however many listen.
type subscription struct {
	tell   []*func(params json.RawMessage)
	cancel context.CancelFunc // of the subscriptions/listen of a server of the stateless era; nil: there is none
}

// subscribe begins to listen to a resource. tell gets the params of each notifications/resources/updated; it must not wait.
func (s *Set) subscribeAt(ctx context.Context, c *rpc.Caller, u *Server, uri string, tell func(json.RawMessage)) (stop func(), err error) {
	l, err := u.enter(ctx)
	if err != nil {
		return nil, &rpc.Error{Code: mcp.CodeInternalError, Message: err.Error()}
	}
	defer u.leave()
	subs, t := &u.subscriptions, &tell
	subs.mu.Lock()
	sub := subs.byURI[uri]
	first := sub == nil
	if first {
		sub = &subscription{}
		if subs.byURI == nil {
			subs.byURI = map[string]*subscription{}
		}
		subs.byURI[uri] = sub
	}
	sub.tell = append(sub.tell, t)
	subs.mu.Unlock()
	stop = sync.OnceFunc(func() { subs.leave(u, uri, t) })
	if first {
		if err := subs.ask(ctx, l, uri); err != nil {
			stop()
			return nil, err
		}
	}
	return stop, nil
}

// ask asks the server to tell of a resource.
func (subs *subscriptions) ask(ctx context.Context, l *link, uri string) error {
	if l.client.Era() == rpc.Handshake {
		return l.client.Call(ctx, "resources/subscribe", mcp.ResourceParams{URI: uri}, nil)
	}
	listening, cancel := context.WithCancel(l.client.Context())
	subs.mu.Lock()
	sub := subs.byURI[uri]
	if sub != nil {
		sub.cancel = cancel
	}
	subs.mu.Unlock()
	if sub == nil { // stopped meanwhile
		cancel()
		return nil
	}
	go func() { // ends with the subscription, and with the connection
		defer cancel()
		_, err := l.client.Do(listening, &rpc.Request{Method: "subscriptions/listen", Params: mcp.ListenParams{Notifications: &mcp.SubscriptionFilter{ResourceSubscriptions: []string{uri}}}})
		if err != nil && listening.Err() == nil {
			l.u.log.Debug().Err(err).Str("uri", uri).Msg("upstream does not tell of a resource")
		}
	}()
	return nil
}

// renew asks a server that has been started again for what is listened to.
func (subs *subscriptions) renew(l *link) {
	subs.mu.Lock()
	var uris []string
	for uri := range subs.byURI {
		uris = append(uris, uri)
	}
	subs.mu.Unlock()
	for _, uri := range uris {
		if err := subs.ask(l.client.Context(), l, uri); err != nil && l.client.Err() == nil {
			l.u.log.Warn().Err(err).Str("uri", uri).Msg("upstream does not take a subscription again")
		}
	}
}

// unsubscribeTime is how long a server may take to answer that nobody listens any more.
const unsubscribeTime = 10 * time.Second

// leave ends one who listens, and with the last one the subscription.
func (subs *subscriptions) leave(u *Server, uri string, t *func(json.RawMessage)) {
	subs.mu.Lock()
	sub := subs.byURI[uri]
	if sub == nil {
		subs.mu.Unlock()
		return
	}
	sub.tell = slices.DeleteFunc(sub.tell, func(other *func(json.RawMessage)) bool { return other == t })
	last, cancel := len(sub.tell) == 0, sub.cancel
	if last {
		delete(subs.byURI, uri)
	}
	subs.mu.Unlock()
	switch {
	case !last:
	case cancel != nil:
		cancel()
	default:
		u.mu.Lock()
		l := u.link
		u.mu.Unlock()
		if l != nil {
			ctx, cancel := context.WithTimeout(l.client.Context(), unsubscribeTime)
			defer cancel()
			_ = l.client.Call(ctx, "resources/unsubscribe", mcp.ResourceParams{URI: uri}, nil) // what still comes is dropped
		}
	}
}

// updated passes on that a resource has changed, to those who listen to it or to what it is part of: the URI "might be a sub-resource of
// the one that the client actually subscribed to".
func (subs *subscriptions) updated(params json.RawMessage) {
	uri := rawjson.StringMember(params, "uri")
	subs.mu.Lock()
	var tell []*func(json.RawMessage)
	for of, sub := range subs.byURI {
		if rest, ok := strings.CutPrefix(uri, of); ok && (rest == "" || strings.HasSuffix(of, "/") || rest[0] == '/' || rest[0] == '?' || rest[0] == '#') {
			tell = append(tell, sub.tell...)
		}
	}
	subs.mu.Unlock()
	for _, t := range tell {
		(*t)(forwarded(params))
	}
}

// Subscribe subscribes where a resource belongs.
func (s *Set) Subscribe(ctx context.Context, c *rpc.Caller, uri string, tell func(json.RawMessage)) (stop func(), err error) {
	err = logs.NotFound(c, uri)
	for _, u := range s.serversOf(ctx, c, uri) {
		if stop, err = s.subscribeAt(ctx, c, u, uri, tell); err == nil || ctx.Err() != nil {
			break
		}
	}
	return stop, err
}
