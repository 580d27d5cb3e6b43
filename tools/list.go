package tools

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tools/secrets"
)

func (s *service) list(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
	cursor, err := rpc.Cursor(params)
	if err != nil {
		return nil, err
	}
	if s.o.Listed != nil {
		s.o.Listed(c.Client)
	}
	s.o.Source.Need(ctx, c)
	if c.Era == rpc.Handshake && s.fallbackListed(c) {
		seen := seenBy(c)
		seen.Do(func() { s.runner.Go(func(ctx context.Context) { s.tellUsed(ctx, seen.session) }) })
	}
	key := listKey{version: c.Version, extra: !s.fallbackHidden(c), load: known(c).Load,
		secrets: s.runner.Secrets()}
	if s.o.App != nil && c.ShowsApps() {
		key.app = s.o.App.Page.Entry.URI
	}
	if c.Version.Stateless {
		key.hints = s.listHints()
	}
	return s.registry.list(key, cursor)
}

// listTTL is how long clients may cache a tool list: it changes only with the config and with upstreams, and
// listening clients are told at once. A list that lacks an upstream's tools must not be cached.
const listTTL = time.Minute

func (s *service) listHints() mcp.Cacheable {
	// The fallback tools are only shown to clients without tasks: "private is appropriate [...] for filtered
	// list results" (2026-07-28 server/utilities/caching).
	scope := "public"
	if s.o.FallbackTools == "" || s.o.FallbackTools == "auto" {
		scope = "private"
	}
	fresh := listTTL
	if !s.o.Source.Whole() {
		fresh = 0
	}
	return mcp.Cacheable{TTLMs: fresh.Milliseconds(), CacheScope: scope}
}

// cursorPrefix distinguishes our cursors from text that only looks like one.
const cursorPrefix = "after "

// listKey is what a page of the list depends on, besides its beginning.
type listKey struct {
	version *mcp.Version
	extra   bool          // the fallback tools are shown
	app     string        // the URI of the app's page; "" if the client shows none
	load    string        // see clients.Client.Load
	hints   mcp.Cacheable // zero: none
	secrets *secrets.Set  // nil: none
}

// list returns a page of the tools, an encoded mcp.ListToolsResult. A cursor is the encoded name of the last
// tool shown. The first page is
// cached: hosts list the tools before each turn of a model. With the tools of other servers there is one
// page, unless it is very long: a client that ignores nextCursor sees all of them, as it does at a server
// that has one page.
func (r *Registry) list(k listKey, cursor string) (rpc.Encoded, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	limit := mcp.MaxListPage
	if len(r.joined) > 0 {
		limit = mcp.MaxPassed
	}
	if page, ok := r.pages.Load(k); ok && cursor == "" {
		return page.(rpc.Encoded), nil
	}
	decoded, _ := base64.RawURLEncoding.DecodeString(cursor)
	last, ours := strings.CutPrefix(string(decoded), cursorPrefix)
	if cursor != "" && !ours {
		return nil, rpc.ErrCursor
	}
	i, found := r.find(last)
	if found {
		i++
	}
	page := struct {
		Tools      []json.RawMessage `json:"tools"`
		NextCursor string            `json:"nextCursor,omitempty"`
		*mcp.Cacheable
	}{Tools: []json.RawMessage{}}
	if k.hints != (mcp.Cacheable{}) {
		page.Cacheable = &k.hints
	}
	for size := 0; i < len(r.tools); i++ {
		e := r.tools[i]
		if e.extra && !k.extra && !e.always || e.forApp && k.app == "" {
			continue
		}
		encoded := []byte(k.secrets.JSON(listed(k.version, e.withMeta(k.app, k.load))))
		if size += len(encoded); size > limit && len(page.Tools) > 0 {
			page.NextCursor = base64.RawURLEncoding.EncodeToString([]byte(cursorPrefix + last))
			break
		}
		page.Tools, last = append(page.Tools, encoded), e.spec.Name
	}
	encoded := rpc.Encoded(encode(page))
	if cursor == "" {
		r.pages.Store(k, encoded)
	}
	return encoded, nil
}

// listed encodes a tool as it stands in the list for a version. A tool of another server stands there as that
// wrote it, with what runnel changes: its name, how it can be called and its page, and without what the era
// cannot hold.
func listed(v *mcp.Version, t mcp.Tool) []byte {
	if t.Raw == nil {
		return encode(dressTool(v, t))
	}
	entry := t.Raw
	for it := rawjson.Over(t.Raw); it.Next(); {
		if string(it.Value) == "null" { // the schema forbids it, but some servers write it
			entry = rawjson.WithMember(entry, string(it.Name), nil)
		}
	}
	if rawjson.StringMember(entry, "name") != t.Name {
		entry = rawjson.WithMember(entry, "name", t.Name)
	}
	if t.OutputSchema != nil && !v.AnyStructured && rawjson.StringMember(t.OutputSchema, "type") != "object" {
		entry = rawjson.WithMember(entry, "outputSchema", nil)
	}
	if !bytes.Equal(t.InputSchema, rawjson.Member(entry, "inputSchema")) {
		entry = rawjson.WithMember(entry, "inputSchema", t.InputSchema)
	}
	if !bytes.Equal(t.Meta, rawjson.Member(entry, "_meta")) {
		entry = rawjson.WithMember(entry, "_meta", t.Meta)
	}
	entry = rawjson.WithMember(entry, "execution", nil)
	if v.Tasks {
		entry = rawjson.WithMember(entry, "execution", t.Execution)
	}
	return entry
}

// encode encodes a value that cannot fail to encode, without escaping HTML.
func encode(v any) []byte {
	var b bytes.Buffer
	to := json.NewEncoder(&b)
	to.SetEscapeHTML(false)
	if err := to.Encode(v); err != nil {
		panic("internal error: encoding a list of tools: " + err.Error())
	}
	return bytes.TrimSpace(b.Bytes())
}
