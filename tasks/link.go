package tasks

import (
	"encoding/json"

	"runnel/rpc/mcp"
)

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
	}{"resource_link", mcp.Resource{URI: LogURI(t.ID), Name: t.Tool + "-" + t.ID, Description: "The whole output", MimeType: LogType}})
	if err != nil {
		panic("internal error: encoding a link: " + err.Error())
	}
	return link
}
