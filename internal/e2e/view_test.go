package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"runnel/rpc"
	httpclient "runnel/rpc/http/client"
	"runnel/rpc/mcp"
)

// showsApps are the capabilities of a client that shows MCP Apps.
var showsApps = mcp.ClientCapabilities{Extensions: map[string]any{mcp.ExtensionUI: map[string]any{"mimeTypes": []any{mcp.AppType}}}}

// page is the live view of a host, as far as calls go.
type page struct {
	*rpc.Client
	t *testing.T
}

// dialPage starts a server, or reaches one at a URL.
func dialPage(t *testing.T, url string, o rpc.DialOptions) page {
	t.Helper()
	o.Capabilities = showsApps
	c := dial(t, url, o)
	t.Cleanup(func() { _ = c.Close() })
	return page{c, t}
}

// dial starts a server, or reaches one at a URL.
func dial(t *testing.T, url string, o rpc.DialOptions) (c *rpc.Client) {
	t.Helper()
	var err error
	if url != "" {
		c, err = httpclient.Dial(t.Context(), httpclient.Options{URL: url}, o)
	} else {
		c, err = rpc.Dial(t.Context(), o)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// get calls a tool of the page.
func (p page) get(to any, tool, arguments string) {
	p.t.Helper()
	var r mcp.CallToolResult
	err := p.Call(p.t.Context(), "tools/call",
		map[string]any{"name": tool, "arguments": json.RawMessage(arguments)}, &r)
	if err != nil || r.IsError || json.Unmarshal(r.StructuredContent, to) != nil {
		p.t.Fatalf("%s %s: %+v, %v", tool, arguments, r, err)
	}
}

// follow reads a task's output until it has ended, and returns it with the status.
func (p page) follow(id string, each func(text string)) (text, status string) {
	p.t.Helper()
	for after := int64(0); ; {
		var o struct {
			Task        struct{ Status, EndedAt string }
			Text        string
			Next, Bytes int64
		}
		p.get(&o, "view_output", fmt.Sprintf(`{"taskId":%q,"after":%d,"waitMs":20000}`, id, after))
		text += o.Text
		each(text)
		if after = o.Next; o.Task.EndedAt != "" && after == o.Bytes {
			return text, o.Task.Status
		}
	}
}

// The page of a host finds the plain call that it stands beside, follows it, and ends it, over every way in.
func TestLiveView(t *testing.T) {
	t.Parallel()
	config := writeConfig(t, `
tools:
  slow: {command: [sh, -c, "for i in 1 2 3 4 5; do echo line $i; sleep 0.1; done; exec sleep 600"]}
`)
	s := serveHTTP(t, config...)
	for _, version := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		for way, url := range map[string]string{"stdio": "", "http": s.url} {
			t.Run(way+" "+version, func(t *testing.T) {
				t.Parallel()
				p := dialPage(t, url, rpc.DialOptions{Command: itself(t, config...)[1:],
					Env: append(environ(t), noConfig), Version: version})
				var list struct {
					Tools []struct {
						Name string
						Meta json.RawMessage `json:"_meta"`
					}
				}
				if err := p.Call(t.Context(), "tools/list", nil, &list); err != nil {
					t.Fatal(err)
				}
				metas := map[string]string{}
				for _, tool := range list.Tools {
					metas[tool.Name] = string(tool.Meta)
				}
				if metas["slow"] != `{"ui":{"resourceUri":"ui://runnel/task"}}` ||
					metas["view_output"] != `{"ui":{"visibility":["app"]}}` {
					t.Errorf("%v", metas)
				}
				var read struct {
					Contents []struct{ MimeType, Text string }
				}
				if err := p.Call(t.Context(), "resources/read", mcp.ResourceParams{URI: "ui://runnel/task"},
					&read); err != nil ||
					len(read.Contents) != 1 || read.Contents[0].MimeType != mcp.AppType ||
					!strings.Contains(read.Contents[0].Text, "<script>") {
					t.Errorf("%.200v, %v", read, err)
				}
				ended := make(chan mcp.CallToolResult, 1)
				go func() {
					var r mcp.CallToolResult
					_ = p.Call(t.Context(), "tools/call", mcp.CallToolParams{Name: "slow"}, &r)
					ended <- r
				}()
				var mine struct{ TaskID string }
				for mine.TaskID == "" {
					p.get(&mine, "view_mine", `{"tool":"slow","arguments":{}}`)
				}
				cancelled := false
				text, status := p.follow(mine.TaskID, func(text string) {
					if strings.HasSuffix(text, "line 5\n") && !cancelled {
						cancelled = true
						p.get(&struct{}{}, "view_cancel", fmt.Sprintf(`{"taskId":%q}`, mine.TaskID))
					}
				})
				if text != "line 1\nline 2\nline 3\nline 4\nline 5\n" || status != "cancelled" {
					t.Errorf("%q, %s", text, status)
				}
				if r := <-ended; !r.IsError {
					t.Errorf("the call: %+v", r)
				}
			})
		}
	}
}
