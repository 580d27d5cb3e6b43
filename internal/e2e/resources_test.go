package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// Each task's log is a resource: in pages from any position on, for its owner only, also after a restart.
func TestResources(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	flags := append(writeConfig(t, `
tools:
  long:
    shell: i=0; while [ $i -lt 30000 ]; do echo "line $i with some text behind it"; i=$((i+1)); done
    maxResult: 1KiB
`), "--selftest", "--state", dir)
	w := newWitness(t, programCommand(t, flags...))
	var created mcp.CreateTaskResult
	w.must(&created, "tools/call", map[string]any{"name": "long", "task": map[string]any{}})
	id := created.Task.TaskID
	var result mcp.CallToolResult
	w.must(&result, "tasks/result", map[string]any{"taskId": id})
	uri := "runnel://tasks/" + id + "/log"
	if last := string(result.Content[len(result.Content)-1]); rawjson.StringMember(result.Content[len(result.Content)-1], "type") != "resource_link" || !strings.Contains(last, uri) {
		t.Errorf("a truncated result ends with %s", last)
	}
	var want strings.Builder
	for i := range 30000 {
		fmt.Fprintf(&want, "line %d with some text behind it\n", i)
	}
	read := func(w *witness, from string) (text string, next int64) {
		t.Helper()
		var page readResourceResult
		w.must(&page, "resources/read", map[string]any{"uri": from})
		n, ok := page.Contents[0].Meta[mcp.MetaNext].(float64)
		if !ok || page.Contents[0].URI != from || page.Contents[0].MimeType != "text/plain" {
			t.Errorf("contents %+.200v", page.Contents[0])
		}
		return page.Contents[0].Text, int64(n)
	}
	whole := func(w *witness) {
		t.Helper()
		got, next := read(w, uri)
		for pages := 1; ; pages++ {
			text, n := read(w, fmt.Sprintf("%s?after=%d", uri, next))
			if text == "" {
				if pages < 2 {
					t.Errorf("%d bytes in %d pages", len(got), pages)
				}
				break
			}
			got, next = got+text, n
		}
		if got != want.String() || next != int64(want.Len()) {
			t.Errorf("%d bytes up to %d, want %d", len(got), next, want.Len())
		}
	}
	whole(w)
	if text, next := read(w, uri+"?after=29"); next <= 29 || !strings.HasPrefix(want.String()[29:], text) {
		t.Errorf("from 29 on: %.40q", text)
	}
	var list listResourcesResult
	w.must(&list, "resources/list", map[string]any{})
	var templates listResourceTemplatesResult
	w.must(&templates, "resources/templates/list", map[string]any{})
	if len(list.Resources) != 1 || list.Resources[0].URI != uri ||
		templates.ResourceTemplates[0].URITemplate != "runnel://tasks/{id}/log" {
		t.Errorf("listed %+v, %+v", list, templates)
	}
	w.end()

	w = newWitness(t, programCommand(t, flags...))
	whole(w)
	for bad, code := range map[string]int{
		"runnel://tasks/unknown/log": -32002, "runnel://tasks/" + id: -32002, "file:///etc/passwd": -32002,
		"runnel://tasks/../" + id + "/log": -32002,
		uri + "?after=-1":                  -32602, uri + "?after=x": -32602, uri + "?%zz": -32602,
		"": -32602, uri + "?" + strings.Repeat("x", 2<<20): -32602,
	} {
		if a := w.call("resources/read", map[string]any{"uri": bad}); a.Error == nil || a.Error.Code != code {
			t.Errorf("%q: %+v, want code %d", bad, a.Error, code)
		}
	}
	w.end()
	other := newWitness(t, programCommand(t, append(flags, "--owner", "other")...))
	if a := other.call("resources/read", map[string]any{"uri": uri}); a.Error == nil ||
		a.Error.Code != -32002 {
		t.Errorf("somebody else's: %+v", a.Error)
	}
	other.must(&list, "resources/list", map[string]any{})
	if len(list.Resources) != 0 {
		t.Errorf("somebody else's are listed: %+v", list)
	}
	other.end()
}

// A subscriber of a log is told when it has grown, at most once a second, and when the task has ended.
func TestSubscription(t *testing.T) {
	t.Parallel()
	w := newWitness(t, programCommand(t, "--selftest", "--state", t.TempDir()))
	var created mcp.CreateTaskResult
	w.must(&created, "tools/call",
		map[string]any{"name": "stream", "task": map[string]any{},
			"arguments": map[string]any{"count": 30, "intervalMs": 50}})
	uri := "runnel://tasks/" + created.Task.TaskID + "/log"
	w.must(&struct{}{}, "resources/subscribe", map[string]any{"uri": uri})
	w.must(&mcp.CallToolResult{}, "tasks/result", map[string]any{"taskId": created.Task.TaskID})
	deadline := time.Now().Add(watchdog)
	for w.count(uri) < 2 {
		if time.Now().After(deadline) {
			t.Fatalf("%d notifications", w.count(uri))
		}
		time.Sleep(10 * time.Millisecond)
	}
	w.must(&struct{}{}, "resources/unsubscribe", map[string]any{"uri": uri})
	if a := w.call("resources/subscribe",
		map[string]any{"uri": "runnel://tasks/unknown/log"}); a.Error == nil || a.Error.Code != -32002 {
		t.Errorf("unknown: %+v", a.Error)
	}
	w.end()
	if n := w.count(uri); n > 4 {
		t.Errorf("%d notifications in about 1.5 s", n)
	}
}

// The answers of the resources methods.
type (
	listResourcesResult struct {
		Resources  []mcp.Resource `json:"resources"`
		NextCursor string         `json:"nextCursor,omitempty"`
	}
	listResourceTemplatesResult struct {
		ResourceTemplates []mcp.ResourceTemplate `json:"resourceTemplates"`
		NextCursor        string                 `json:"nextCursor,omitempty"`
	}
	readResourceResult struct {
		Contents []resourceContents `json:"contents"`
	}
	resourceContents struct {
		URI      string         `json:"uri"`
		MimeType string         `json:"mimeType,omitempty"`
		Text     string         `json:"text"`
		Meta     map[string]any `json:"_meta,omitempty"`
	}
	cacheableContents struct {
		readResourceResult
		mcp.Cacheable
	}
)
