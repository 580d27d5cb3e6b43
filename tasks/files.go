package tasks

import (
	"net/url"
	"strings"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

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
