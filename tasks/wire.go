package tasks

import (
	"encoding/json"
	"maps"
	"net/url"
	"strings"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// Wire returns the task as a client of 2025-11-25 sees it.
func (t *Task) Wire(pollInterval time.Duration) mcp.Task {
	ttl := t.TTL.Milliseconds()
	return mcp.Task{
		TaskID:        t.ID,
		Status:        t.Status,
		StatusMessage: t.StatusMessage,
		CreatedAt:     t.CreatedAt.UTC().Format(time.RFC3339Nano),
		LastUpdatedAt: t.UpdatedAt.UTC().Format(time.RFC3339Nano),
		TTL:           &ttl,
		PollInterval:  pollInterval.Milliseconds(),
	}
}

// Shown returns the task as tasks/get shows it.
func (t *Task) Shown() mcp.Task {
	shown := t.Wire(0)
	shown.Meta = WithVariables(nil, t, 0)
	return shown
}

// maxMerged keeps a merged result below the 10 MiB that clients accept.
const maxMerged = 8 << 20

// Result returns the result of a task that ended with one: the merged segments if the request asked for them.
// It fails, with an *rpc.Error, if those cannot be read.
func (t *Task) Result() (*mcp.CallToolResult, error) {
	result := WithRelated(t.Outcome.Result, t.ID)
	if t.Merge {
		result.Content = nil // otherwise Unmarshal would overwrite the items of the outcome and the segments
		merged, cut, err := t.Segments.Merged(maxMerged)
		if err != nil {
			return nil, Unreadable(err)
		}
		if err := json.Unmarshal(merged, &result.Content); err != nil {
			panic("internal error: merged segments: " + err.Error())
		}
		if cut {
			result.Content = append(result.Content, LinkLog(t))
		}
	}
	result.Meta = WithVariables(result.Meta, t, result.Size())
	return result, nil
}

// Unreadable is the error for output that is kept, but cannot be read at the moment.
func Unreadable(err error) error {
	return rpc.Errorf(mcp.CodeInternalError,
		"the output of the task cannot be read; try again later: %v", err)
}

// Related returns the _meta that names the task of a message: "io.modelcontextprotocol/related-task"
// (2025-11-25).
func Related(id string) map[string]any {
	return map[string]any{mcp.MetaRelatedTask: mcp.RelatedTask{TaskID: id}}
}

// WithRelated returns a copy of result whose _meta names its task.
func WithRelated(result *mcp.CallToolResult, id string) *mcp.CallToolResult {
	tied := *result
	tied.Meta = Related(id)
	maps.Copy(tied.Meta, result.Meta)
	return &tied
}

// WithVariables adds a task's variables, if it has any, to a _meta, which may be nil. beside is the size of
// the rest of the answer: if the variables do not fit beside it, they are left out, and a member says how
// long they are.
func WithVariables(meta map[string]any, t *Task, beside int) map[string]any {
	own := OwnVariables(t.Variables)
	if own == nil {
		return meta
	}
	if beside+len(own) > mcp.MaxContent {
		return with(meta, mcp.MetaVariablesBytes, len(own))
	}
	return with(meta, mcp.MetaVariables, own)
}

// with sets a member of a _meta, which may be nil.
func with(meta map[string]any, name string, value any) map[string]any {
	if meta == nil {
		meta = map[string]any{}
	}
	meta[name] = value
	return meta
}

// The log of each task is a resource, which package logs serves.
const (
	LogPrefix = "runnel://tasks/"
	LogSuffix = "/log"
	LogType   = "text/plain"
)

// LogURI returns the URI of a task's log: runnel://tasks/ID/log.
func LogURI(id string) string { return LogPrefix + id + LogSuffix }

// LinkLog returns a content item that links to a task's whole log.
func LinkLog(t *Task) mcp.ContentBlock {
	link, err := json.Marshal(struct {
		Type string `json:"type"`
		mcp.Resource
	}{"resource_link", mcp.Resource{URI: LogURI(t.ID), Name: t.Tool + "-" + t.ID,
		Description: "The whole output", MimeType: LogType}})
	if err != nil {
		panic("internal error: encoding a link: " + err.Error())
	}
	return link
}

// The files that a task has made are kept beside it: in the log of a second task of the same owner and ttl,
// whose id is made from the task's (package files). So every state carries them like output: stored in
// pieces, bounded, expiring. Clients do not find that task (package run), and State.Delete deletes it with
// the first.

const filesSuffix = "-files"

// FilesID returns the id of the task in whose log the files of another task are kept.
func FilesID(id string) string { return id + filesSuffix }

// IsFiles reports whether an id is one of FilesID.
func IsFiles(id string) bool { return strings.HasSuffix(id, filesSuffix) }

// MakerOf returns the task whose files the task with an id keeps, and reports false if it keeps none.
func MakerOf(id string) (maker string, keeps bool) { return strings.CutSuffix(id, filesSuffix) }

// FileInfix stands between a task's id and a file's name in the URI of the file.
const FileInfix = "/files/"

// FileURI returns the URI of a file that a task has made: runnel://tasks/ID/files/NAME. The name is relative,
// with slashes, which stay as they are.
func FileURI(id, name string) string {
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return LogPrefix + id + FileInfix + strings.Join(parts, "/")
}

// LinkFile returns a content item that links to a file that a task has made. r has all but the URI.
func LinkFile(id string, r mcp.Resource, sha256 string) mcp.ContentBlock {
	r.URI = FileURI(id, r.Name)
	return rawjson.Encode(struct {
		Type string `json:"type"`
		mcp.Resource
		Meta map[string]string `json:"_meta"`
	}{"resource_link", r, map[string]string{mcp.MetaSHA256: sha256}})
}
