package logs

import (
	"context"
	"encoding/json"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// The resources of the stateless era say how long they may be kept (2026-07-28 server/utilities/caching), and are
// subscribed to with subscriptions/listen.

// logTTL is how long the log of a task that has ended may be kept: it does not change, but it is gone with its task.
const logTTL = time.Minute

// templatesTTL is how long the list of templates may be kept: runnel has one, and it never changes.
const templatesTTL = time.Minute

func (s *server) listResourcesStateless(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
	list, err := s.listResources(ctx, c, params)
	if err != nil {
		return nil, err
	}
	// Any call may add a task, and no notification announces it.
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
