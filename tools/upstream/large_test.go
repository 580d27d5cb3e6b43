//go:build unix

package upstream

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"runnel/tools"
)

// largeResult is the result of a call whose arguments say how many bytes of text, image and structured
// content it has; "" if they say nothing.
func largeResult(params json.RawMessage) string {
	var p struct {
		Arguments struct{ Text, Image, Structured int }
	}
	_ = json.Unmarshal(params, &p)
	a, content := p.Arguments, []string{}
	if a.Text > 0 {
		content = append(content, fmt.Sprintf(`{"type":"text","text":"%s"}`, largeText(a.Text)))
	}
	if a.Image > 0 {
		content = append(content, fmt.Sprintf(`{"type":"image","data":"%s","mimeType":"image/png"}`,
			strings.Repeat("AAAA", a.Image/4)))
	}
	structured := ""
	if a.Structured > 0 {
		structured = fmt.Sprintf(`,"structuredContent":{"content":"%s"}`, strings.Repeat("s", a.Structured))
	}
	if len(content) == 0 && structured == "" {
		return ""
	}
	return fmt.Sprintf(`{"content":[%s]%s}`, strings.Join(content, ","), structured)
}

// largeText has numbered places, so that a piece of it can be recognized.
func largeText(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "place %08d ", i)
	}
	return b.String()[:n]
}

// What a server answers passes whole, as long as a client can read the line; one item may be nearly all of
// it.
func TestLargeResultsPass(t *testing.T) {
	t.Parallel()
	c := speak(t, "", full(t, "a"))
	for _, arguments := range []string{`{"text":600000,"structured":600000}`, `{"image":4000000}`,
		`{"text":3000000}`, `{"structured":5000000}`, `{"text":4000000,"image":4000000}`} {
		for range 2 {
			got := c.ask(1, "tools/call", `{"name":"a_tool","arguments":`+arguments+`}`)
			want := largeResult(json.RawMessage(`{"arguments":` + arguments + `}`))
			if got != `{"jsonrpc":"2.0","id":1,"result":`+want+`}` {
				t.Errorf("%s: of %d bytes come %d: %.300s", arguments, len(want), len(got), got)
			}
		}
	}
	for range 2 {
		if got := c.ask(2, "prompts/get",
			`{"name":"a_p","arguments":{"size":"large"}}`); !strings.Contains(got,
			strings.Repeat("p", 4<<20)) {
			t.Errorf("the prompt is %.300s", got)
		}
		if got := c.ask(3, "resources/read", `{"uri":"a://large/end"}`); !strings.Contains(got,
			strings.Repeat("rrrr", 1<<20)) {
			t.Errorf("the resource is %.300s", got)
		}
	}
}

// A result that no client could read in a line says how to read what it leaves out, and that can be read.
func TestResultThatIsTooLarge(t *testing.T) {
	t.Parallel()
	set := NewSet(&tools.Registry{})
	if err := set.Add(full(t, "a")); err != nil {
		t.Fatal(err)
	}
	c := serveSetWith(t, set, tools.ServeOptions{FallbackTools: "always"})
	t.Cleanup(set.Close)
	c.ask(0, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
	type result struct {
		Result struct {
			Content []struct{ Type, Text, URI string }
			IsError bool
		}
	}
	call := func(id int, tool, arguments string) (r result) {
		line := c.ask(id, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments))
		if err := json.Unmarshal([]byte(line), &r); err != nil || len(line) > 9<<20 ||
			len(r.Result.Content) == 0 {
			t.Fatalf("%d bytes: %.1000s, %v", len(line), line, err)
		}
		return r
	}
	for i := range 2 {
		whole := largeText(9 << 20)
		r := call(1, "a_tool", fmt.Sprintf(`{"text":%d}`, len(whole)))
		text := r.Result.Content[0].Text
		head, note, found := strings.Cut(text, "[...")
		var left, after int64
		var id string
		if _, err := fmt.Sscanf(note, ` %d bytes left out: call get_task_result with {"task_id": %q, "after": %d}`, &left, &id, &after); !found || err != nil {
			t.Fatalf("%d: the result says %.500s (%v)", i, note, err)
		}
		if head = strings.TrimSuffix(head, "\n"); !strings.HasPrefix(whole, head) {
			t.Errorf("%d: the beginning is %.300s", i, head)
		}
		rest := call(2, "get_task_result", fmt.Sprintf(`{"task_id":%q,"after":%d}`, id, after))
		if got := rest.Result.Content[0].Text; !strings.HasPrefix(got, whole[after:after+1000]) {
			t.Errorf("%d: the rest is %.300s, want %.300s", i, got, whole[after:])
		}
		if link := r.Result.Content[len(r.Result.Content)-1]; link.Type != "resource_link" ||
			!strings.Contains(link.URI, id) {
			t.Errorf("%d: no link to the log, but %+.300v", i, link)
		}
		log := c.ask(3, "resources/read", fmt.Sprintf(`{"uri":"runnel://tasks/%s/log?after=%d"}`, id, after))
		if !strings.Contains(log, whole[after:after+1000]) {
			t.Errorf("%d: the log has %.300s", i, log)
		}
		r = call(4, "a_tool", `{"structured":10000000}`)
		if text := r.Result.Content[0].Text; !r.Result.IsError ||
			!strings.Contains(text, "[structured content of 10000014 bytes: too large for a result]\n") ||
			!strings.Contains(text, `"after": 0}`) {
			t.Errorf("%d: %.500s", i, text)
		}
	}
}
