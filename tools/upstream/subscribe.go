package upstream

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tools/secrets"
)

// subscriptions are the resources of a server that somebody listens to. They outlive a connection, and a
// change of the server's config.
type subscriptions struct {
	log zerolog.Logger

	mu     sync.Mutex
	client *rpc.Client // the newest connection's; nil before the first
	byURI  map[string]*subscription
}

// subscription is one resource. The server has one subscription for all listeners.
type subscription struct {
	tell []*func(params json.RawMessage)
	// Ends the subscriptions/listen of a server of the stateless era, if one is open.
	cancel context.CancelFunc
}

// add begins to listen to a resource. tell gets the params of each notifications/resources/updated; it must
// neither wait nor keep them.
func (s *subscriptions) add(ctx context.Context, client *rpc.Client, uri string,
	tell func(json.RawMessage)) (stop func(), err error) {
	s.mu.Lock()
	s.client = client
	sub := s.byURI[uri]
	first := sub == nil
	if first {
		sub = &subscription{}
		s.byURI[uri] = sub
	}
	sub.tell = append(sub.tell, &tell)
	s.mu.Unlock()
	stop = sync.OnceFunc(func() { s.leave(uri, &tell) })
	// Each listener learns whether the server takes the subscription.
	if first || client.Era() == rpc.Handshake {
		err = s.ask(ctx, client, uri)
	}
	if err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// ask asks the server to announce changes of a resource.
func (s *subscriptions) ask(ctx context.Context, client *rpc.Client, uri string) error {
	if client.Era() == rpc.Handshake {
		return client.Call(ctx, "resources/subscribe", mcp.ResourceParams{URI: uri}, nil)
	}
	listening, cancel := context.WithCancel(client.Context())
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := s.byURI[uri]
	// Ended meanwhile, or renewed by a newer connection.
	if sub == nil || sub.cancel != nil && client != s.client {
		cancel()
		return nil
	}
	if sub.cancel != nil { // requested already, or by a connection that is gone
		sub.cancel()
	}
	sub.cancel = cancel
	go func() { // ends with the subscription, and with the connection
		defer cancel()
		err := client.Listen(listening, &rpc.Request{
			Method: "subscriptions/listen",
			Params: mcp.ListenParams{Notifications: &mcp.SubscriptionFilter{ResourceSubscriptions: []string{uri}}},
		}, func() { s.updated(rawjson.Encode(mcp.ResourceParams{URI: uri}), nil) })
		if err != nil && listening.Err() == nil {
			s.log.Debug().Err(err).Str("uri", uri).Msg("upstream does not announce changes of a resource")
		}
	}()
	return nil
}

// renew subscribes again at a server that was restarted.
func (s *subscriptions) renew(client *rpc.Client) {
	s.mu.Lock()
	s.client = client
	uris := slices.Collect(maps.Keys(s.byURI))
	s.mu.Unlock()
	for _, uri := range uris {
		if err := s.ask(client.Context(), client, uri); err != nil && client.Err() == nil {
			s.log.Warn().Err(err).Str("uri", uri).Msg("upstream does not take a subscription again")
		}
	}
}

// unsubscribeTime is how long a server may take to answer an unsubscription.
const unsubscribeTime = 10 * time.Second

// leave ends one listener, and with the last one the subscription.
func (s *subscriptions) leave(uri string, t *func(json.RawMessage)) {
	s.mu.Lock()
	sub, client := s.byURI[uri], s.client
	sub.tell = slices.DeleteFunc(sub.tell, func(other *func(json.RawMessage)) bool { return other == t })
	last := len(sub.tell) == 0
	if last {
		delete(s.byURI, uri)
	}
	s.mu.Unlock()
	switch {
	case !last:
	case sub.cancel != nil:
		sub.cancel()
	default:
		ctx, cancel := context.WithTimeout(client.Context(), unsubscribeTime)
		defer cancel()
		// Later updates are dropped.
		_ = client.Call(ctx, "resources/unsubscribe", mcp.ResourceParams{URI: uri}, nil)
	}
}

// updated notifies the listeners of a resource, and of resources that contain it, that it has changed: the
// URI "might be a sub-resource of the one that the client actually subscribed to".
func (s *subscriptions) updated(params json.RawMessage, hide *secrets.Set) {
	uri := rawjson.StringMember(params, "uri")
	s.mu.Lock()
	var tell []*func(json.RawMessage)
	for of, sub := range s.byURI {
		if rest, ok := strings.CutPrefix(uri, of); ok &&
			(rest == "" || strings.HasSuffix(of, "/") || strings.ContainsAny(rest[:1], "/?#")) {
			tell = append(tell, sub.tell...)
		}
	}
	s.mu.Unlock()
	for _, t := range tell {
		(*t)(toClient(hide.JSON(params)))
	}
}

// tellAll notifies all listeners that their resources have changed, because their server is gone. It reports
// whether anybody listens.
func (s *subscriptions) tellAll() bool {
	s.mu.Lock()
	uris := slices.Collect(maps.Keys(s.byURI))
	s.mu.Unlock()
	for _, uri := range uris {
		s.updated(rawjson.Encode(mcp.ResourceParams{URI: uri}), nil)
	}
	return len(uris) > 0
}
