package logs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tools/text"
)

// The log of each task is a resource: runnel://tasks/ID/log, and with ?after=N the part of it after position
// N. An answer shows only a page, so the _meta of each content has the position at which to continue.

const (
	logTemplate = tasks.LogPrefix + "{id}" + tasks.LogSuffix

	// resourcePage is how many entries one resources/list result shows.
	resourcePage = 200
)

func (s *server) listResources(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
	cursor, err := rpc.Cursor(params)
	if err != nil {
		return nil, err
	}
	// Any call may add a task, and no notification announces it.
	result := listedResources{Resources: []json.RawMessage{}, Cacheable: private(c, 0)}
	if cursor == "" && s.o.Page != nil && c.ShowsApps() {
		result.Resources = append(result.Resources, rawjson.Encode(s.o.Page.Entry))
	}
	others := s.hasOthers(c)
	if !others || !s.o.Others.Ours(cursor) {
		page, made, next, err := s.runner.ListWithFiles(ctx, cursor, resourcePage)
		if err != nil {
			return nil, tasks.WireError(err)
		}
		for _, t := range page {
			result.Resources = append(result.Resources, rawjson.Encode(logResource(c.Version, &t)))
		}
		result.Resources = append(result.Resources, s.listFiles(ctx, c, made, mcp.MaxListPage)...)
		if result.NextCursor = next; next != "" || !others {
			return result, nil
		}
		cursor = ""
	}
	more, next := s.o.Others.Resources(ctx, c, cursor)
	result.Resources, result.NextCursor = append(result.Resources, more...), next
	return result, nil
}

// listedResources answers "resources/list". Entries are kept encoded: most are other servers'.
type listedResources struct {
	Resources  []json.RawMessage `json:"resources"`
	NextCursor string            `json:"nextCursor,omitempty"`
	*mcp.Cacheable
}

// listedTemplates answers "resources/templates/list".
type listedTemplates struct {
	ResourceTemplates []json.RawMessage `json:"resourceTemplates"`
	NextCursor        string            `json:"nextCursor,omitempty"`
	*mcp.Cacheable
}

// logResource is a task's log as an entry of a list.
func logResource(v *mcp.Version, t *tasks.Task) mcp.Resource {
	status := string(t.Status)
	if v.Stateless && (t.Status == mcp.TaskCompleted || t.Status == mcp.TaskFailed) {
		// One with an error result is completed in tasks/get; which those are, a list does not know.
		status = "ended"
	}
	r := mcp.Resource{
		URI:  tasks.LogURI(t.ID),
		Name: t.Tool + "-" + t.ID,
		Description: fmt.Sprintf("Output of %s, task %s, started %s: %s", t.Tool, t.ID,
			t.CreatedAt.UTC().Format("2006-01-02 15:04:05 UTC"), status),
		MimeType: tasks.LogType,
	}
	if v.Titles {
		r.Title = "Log of " + t.Tool
	}
	return r
}

func (s *server) listTemplates(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
	cursor, err := rpc.Cursor(params)
	if err != nil {
		return nil, err
	}
	others := s.hasOthers(c)
	if cursor != "" && (!others || !s.o.Others.Ours(cursor)) {
		return nil, rpc.ErrCursor
	}
	result := listedTemplates{Cacheable: s.templateHints(c, others)}
	if others {
		result.ResourceTemplates, result.NextCursor = s.o.Others.Templates(ctx, c, cursor)
	}
	if cursor != "" {
		return result, nil
	}
	t := mcp.ResourceTemplate{
		URITemplate: logTemplate,
		Name:        "task-log",
		Description: "The output of a task. With ?after=N, from position N on; _meta[\"" + mcp.MetaNext +
			"\"] tells the position to go on from.",
		MimeType: tasks.LogType,
	}
	if c.Version.Titles {
		t.Title = "Log of a task"
	}
	f := mcp.ResourceTemplate{
		URITemplate: fileTemplate,
		Name:        "task-file",
		Description: "A file that a task has made. With ?after=N, from byte N on; _meta[\"" + mcp.MetaNext +
			"\"] tells the byte to go on from.",
	}
	if c.Version.Titles {
		f.Title = "File of a task"
	}
	result.ResourceTemplates = append([]json.RawMessage{rawjson.Encode(t), rawjson.Encode(f)},
		result.ResourceTemplates...)
	return result, nil
}

// findLog returns the task to whose log params.uri refers.
func (s *server) findLog(ctx context.Context, c *rpc.Caller,
	params json.RawMessage) (t tasks.Task, uri string, after int64, err error) {
	var p mcp.ResourceParams
	if err := rawjson.Unmarshal(params, &p); err != nil || p.URI == "" {
		return t, "", 0, rpc.Errorf(mcp.CodeInvalidParams, "params.uri must be a resource's URI, such as %s",
			logTemplate)
	}
	if len(p.URI) > MaxURI {
		return t, "", 0, rpc.Errorf(mcp.CodeInvalidParams,
			"params.uri has %d bytes: the limit is %d; a log's is such as %s", len(p.URI), MaxURI,
			logTemplate)
	}
	id, after, err := ParseURI(p.URI)
	if err != nil {
		return t, p.URI, 0, err
	}
	if t, err = s.runner.Head(ctx, id); errors.Is(err, tasks.ErrNotFound) {
		err = NotFound(c, p.URI)
	}
	return t, p.URI, after, tasks.WireError(err)
}

func (s *server) readResource(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
	switch uri := rawjson.StringMember(params, "uri"); {
	case s.isPage(c, uri):
		return s.readPage(c), nil
	case s.isForeign(c, uri):
		return s.o.Others.Read(ctx, c, uri, params)
	}
	if uri := rawjson.StringMember(params, "uri"); len(uri) <= MaxURI {
		if id, name, after, err := parseFileURI(uri); err != nil {
			return nil, err
		} else if id != "" {
			return s.readFile(ctx, c, uri, id, name, after, params)
		}
	}
	t, uri, after, err := s.findLog(ctx, c, params)
	if err != nil {
		return nil, err
	}
	// The result is written out by hand: encoding/json took a third of the time. Its memory is used again:
	// new memory took a sixth.
	memory := pages.Get().(*[]byte)
	page := slices.Grow((*memory)[:0], int(min(mcp.MaxPage, max(t.Log.Size()-after, 0)))+MaxURI)
	page = append(append(page, `{"contents":[{"uri":`...), rawjson.Encode(uri)...)
	page = append(page, `,"mimeType":"`+tasks.LogType+`","text":"`...)
	page, next, err := AppendText(ctx, page, t.Log, after, math.MaxInt64, mcp.MaxPage, text.WithoutColors)
	if err != nil {
		return nil, err
	}
	page = fmt.Appendf(page, `","_meta":{%q:%d}}]`, mcp.MetaNext, next)
	ttl := time.Duration(0)
	if t.Status.Terminal() { // the page will never change
		ttl = logTTL
	}
	if hints := private(c, ttl); hints != nil {
		page = append(append(page, ','), rawjson.Encode(hints)[1:]...)
	} else {
		page = append(page, '}')
	}
	*memory = page
	free := func() { pages.Put(memory) }
	return rpc.After{Result: rpc.Encoded(page), Do: free, Drop: free}, nil
}

// pages holds the memory of pages that were sent.
var pages = sync.Pool{New: func() any { return new([]byte) }}

// readPage answers with the page of the app.
func (s *server) readPage(c *rpc.Caller) any {
	return struct {
		Contents []json.RawMessage `json:"contents"`
		*mcp.Cacheable
	}{[]json.RawMessage{s.o.Page.Contents()}, private(c, pageTTL)}
}

// logStep is how much of a log is read at a time, until the page is full.
const logStep = 4 << 10

// AppendText appends the text of a log between the positions after and end, as a JSON string without its
// quotes, limit bytes at most, and returns the position at which to continue. A chunk around end is cut there
// if it can be, and appended whole otherwise. shown makes text fit for its reader.
func AppendText(ctx context.Context, dst []byte, log *partials.Log, after, end int64, limit int,
	shown func([]byte) []byte) (_ []byte, next int64, err error) {
	begin := len(dst)
	r := log.ReaderAt(after)
	for next = after; ; {
		size := len(dst) - begin
		if next >= end {
			return dst, next, nil
		}
		batch, err := r.Read(ctx, int(min(int64(limit-size), logStep, end-next)))
		if err != nil {
			return dst, next, err
		}
		if batch.End == batch.Start {
			return dst, max(next, r.Pos()), nil
		}
		if batch.Start > next {
			dst = rawjson.AppendText(dst, []byte(partials.LostWords(batch.Start-next)))
		}
		for c := range batch.Items() {
			if c.Kind == partials.Text {
				dst = rawjson.AppendText(dst, shown(c.Data))
			} else if t, ok := mcp.TextOf(c.Data); ok {
				dst = rawjson.AppendText(dst, []byte(text.Short(t, limit/2)))
			} else {
				dst = rawjson.AppendText(dst, fmt.Appendf(nil, "[%s]\n",
					rawjson.StringMember(c.Data, "type")))
			}
		}
		if size > 0 && len(dst)-begin > limit {
			return dst[:begin+size], next, nil
		}
		if next = r.Pos(); len(dst)-begin >= limit {
			return dst, next, nil
		}
	}
}
