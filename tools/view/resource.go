package view

import (
	"encoding/json"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks/logs"
	"runnel/tools/view/page"
)

// URI identifies the page as a resource.
const URI = "ui://runnel/task"

// resource is the page as a resource, with a policy that forbids it to load anything.
var resource = logs.Page{
	Entry: mcp.Resource{
		URI:   URI,
		Name:  "task",
		Title: "Live view of a task",
		Description: "Shows a task's output while it comes, how the last runs ended, and lets its user " +
			"cancel it and run it again.",
		MimeType: mcp.AppType,
	},
	Contents: func() json.RawMessage {
		type csp struct { // "Empty or omitted = no external connections (secure default)"
			Connect  []string `json:"connectDomains"`
			Resource []string `json:"resourceDomains"`
			Frame    []string `json:"frameDomains"`
			BaseURI  []string `json:"baseUriDomains"`
		}
		type ui struct {
			CSP           csp  `json:"csp"`
			PrefersBorder bool `json:"prefersBorder"`
		}
		none := []string{}
		return rawjson.Encode(struct {
			URI      string        `json:"uri"`
			MimeType string        `json:"mimeType"`
			Text     string        `json:"text"`
			Meta     map[string]ui `json:"_meta"`
		}{URI, mcp.AppType, string(page.HTML()), map[string]ui{"ui": {csp{none, none, none, none}, true}}})
	},
}
