package logs

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
)

// The resources of the stateless era say how long they may be kept (2026-07-28 server/utilities/caching), and are
// subscribed to with subscriptions/listen.

// logTTL is how long the log of a task that has ended may be kept: it does not change, but it is gone with its task.
const logTTL = time.Minute

// templatesTTL is how long the list of templates may be kept: runnel has one, and it never changes.
const templatesTTL = time.Minute

// maxResourceURIs bounds the goroutines that one subscriptions/listen starts: one log has any number of URIs.
const maxResourceURIs = maxSubscriptions

func (s *server) listResourcesStateless(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
	list, err := s.listResources(ctx, c, params)
	if err != nil {
		return nil, err
	}
	// Any call may add a task, and no notification tells of it.
	return struct {
		listedResources
		mcp.Cacheable
	}{list.(listedResources), private(0)}, nil
}

func (s *server) listTemplatesStateless(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
	list, err := s.listTemplates(ctx, c, params)
	if err != nil {
		return nil, err
	}
	hints := mcp.Cacheable{TTLMs: templatesTTL.Milliseconds(), CacheScope: "public"}
	if s.hasOthers(c) {
		hints = s.o.Others.Hints()
	}
	return struct {
		listedTemplates
		mcp.Cacheable
	}{list.(listedTemplates), hints}, nil
}

func (s *server) readResourceStateless(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
	if uri := rawjson.StringMember(params, "uri"); s.isForeign(c, uri) {
		return s.o.Others.Read(ctx, c, uri, params)
	}
	page, final, err := s.read(ctx, c, params)
	if err != nil {
		return nil, err
	}
	ttl := time.Duration(0)
	if final {
		ttl = logTTL
	}
	return append(append(page[:len(page)-1], ','), rawjson.Encode(private(ttl))[1:]...), nil
}

// private are the hints for what belongs to an owner.
func private(ttl time.Duration) mcp.Cacheable {
	return mcp.Cacheable{TTLMs: ttl.Milliseconds(), CacheScope: "private"}
}

// watchedLog is a log that a subscription tells about.
type watchedLog struct {
	uri  string
	task tasks.Task
	size int64 // of the log, before the acknowledgement: what comes from there on is told
}

// watchedLogs finds the logs that a subscription asks for; what is not there is not agreed to.
func (s *server) watchedLogs(ctx context.Context, uris []string) (logs []watchedLog, agreed []string, err error) {
	if len(uris) > maxResourceURIs {
		return nil, nil, rpc.Errorf(mcp.CodeInvalidParams, "params.notifications.resourceSubscriptions: too many: the limit is %d", maxResourceURIs)
	}
	for _, uri := range uris {
		id, _, err := ParseURI(uri)
		if err != nil || slices.Contains(agreed, uri) {
			continue
		}
		if t, err := s.runner.Head(ctx, id); err == nil {
			agreed = append(agreed, uri)
			logs = append(logs, watchedLog{uri, t, t.Log.Size()})
		}
	}
	return logs, agreed, nil
}

// watchLog tells when a log has grown, and once more when its task has ended.
func (l *subscription) watchLog(ctx context.Context, log watchedLog) {
	l.server.watchLog(ctx, log.task.ID, log.size, func() error {
		return l.notify(ctx, "notifications/resources/updated", mcp.ResourceParams{URI: log.uri})
	})
}
