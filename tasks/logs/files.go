package logs

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/files"
)

// The files that a task has made are resources: runnel://tasks/ID/files/NAME, and with ?after=N the part of a
// file after byte N. An answer shows only a page, as that of a log does; _meta says where to continue.

const (
	fileTemplate = tasks.LogPrefix + "{id}" + tasks.FileInfix + "{+name}"

	// blobPage is how many bytes of a file an answer has in base64, in whole groups of it.
	blobPage = mcp.MaxPage / 4 * 3 / 3 * 3
	// textPage is how many it has as text.
	textPage = mcp.MaxText
)

// fileContents is the contents of a resource that is a file: text, or blob in base64.
type fileContents struct {
	URI      string         `json:"uri"`
	MimeType string         `json:"mimeType"`
	Text     *string        `json:"text,omitempty"`
	Blob     *string        `json:"blob,omitempty"`
	Meta     map[string]any `json:"_meta"`
}

// readFile answers resources/read for a file. One that is unknown here may be that of a task of another
// runnel, to which a result of a tool of that runnel links.
func (s *server) readFile(ctx context.Context, c *rpc.Caller, uri, id, name string, after int64,
	params json.RawMessage) (any, error) {
	set, err := s.runner.Files(ctx, id)
	var f files.File
	if err == nil {
		f, err = set.Find(name)
	}
	switch {
	case errors.Is(err, tasks.ErrNotFound) && s.hasOthers(c):
		return s.o.Others.Read(ctx, c, uri, params)
	case errors.Is(err, tasks.ErrNotFound):
		return nil, NotFound(c, uri)
	case err != nil:
		return nil, tasks.WireError(err)
	}
	limit := int64(blobPage)
	isText := isText(f.MIMEType)
	if isText {
		limit = textPage
	}
	from := set.Reader(ctx, f)
	if _, err := from.Seek(min(after, f.Size), io.SeekStart); err != nil {
		return nil, err
	}
	page, err := io.ReadAll(io.LimitReader(from, limit))
	if err != nil {
		return nil, tasks.Unreadable(err)
	}
	next := min(after, f.Size) + int64(len(page))
	answer := fileContents{URI: uri, MimeType: f.MIMEType}
	if whole := wholeCharacters(page); isText && utf8.Valid(whole) && (len(whole) > 0 || len(page) == 0) {
		next -= int64(len(page) - len(whole))
		answer.Text = new(string(whole))
	} else {
		answer.Blob = new(base64.StdEncoding.EncodeToString(page))
	}
	answer.Meta = map[string]any{mcp.MetaNext: next, "runnel/size": f.Size, mcp.MetaSHA256: f.SHA256}
	return struct {
		Contents []fileContents `json:"contents"`
		*mcp.Cacheable
	}{[]fileContents{answer}, private(c, fileTTL)}, nil
}

// fileTTL is how long a file may be cached: it does not change, but is deleted with its task.
const fileTTL = time.Minute

// wholeCharacters returns a page of text without the beginning of a character at its end.
func wholeCharacters(page []byte) []byte {
	for n := 1; n < utf8.UTFMax && n <= len(page); n++ {
		if b := page[len(page)-n:]; utf8.RuneStart(b[0]) {
			if !utf8.FullRune(b) {
				return page[:len(page)-n]
			}
			break
		}
	}
	return page
}

// isText reports whether a model reads a file of a type as text.
func isText(mimeType string) bool {
	kind, _, _ := strings.Cut(mimeType, ";")
	return strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "json") ||
		strings.HasSuffix(kind, "xml") || strings.HasSuffix(kind, "javascript")
}

// maxListed is how many files of a task resources/list shows: the task's result links to all.
const maxListed = 20

// listFiles returns the entries of the files of some tasks, up to limit bytes of them.
func (s *server) listFiles(ctx context.Context, c *rpc.Caller, ids []string,
	limit int) (entries []json.RawMessage) {
	for _, id := range ids {
		set, err := s.runner.Files(ctx, id)
		if err != nil { // they have expired, or are not complete
			continue
		}
		for _, f := range set.Files[:min(len(set.Files), maxListed)] {
			r := mcp.Resource{
				URI: tasks.FileURI(id, f.Name), Name: f.Name, MimeType: f.MIMEType, Size: f.Size,
				Description: fmt.Sprintf("A file that task %s has made", id),
			}
			if c.Version.Titles {
				r.Title = f.Name
			}
			entry := rawjson.Encode(r)
			if limit -= len(entry); limit < 0 {
				return entries
			}
			entries = append(entries, entry)
		}
	}
	return entries
}
