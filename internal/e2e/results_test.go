package e2e

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"runnel/rpc/mcp"
)

// A model pays for a plain call so many bytes of text, as they stand in JSON. The part that is left out can
// still be read.
func TestWhatAModelReads(t *testing.T) {
	t.Parallel()
	w := newWitness(t, programCommand(t, append(writeConfig(t, `
tasks: {maxLive: 1}
tools:
  count: {command: [seq, "1", "200000"]}
  bar: {shell: 'i=0; while [ $i -lt 200 ]; do i=$((i+1)); printf "\r%d of 200" $i; done; echo'}
  busy: {command: [sleep, "600"]}
`), "--state", stateDir(t), "--sync-wait", "0")...))
	// No room for more.
	w.must(&struct{}{}, "tools/call",
		map[string]any{"name": "busy", "arguments": map[string]any{}, "task": map[string]any{}})

	var bar, count mcp.CallToolResult
	w.must(&bar, "tools/call", map[string]any{"name": "bar", "arguments": map[string]any{}})
	if text, _ := mcp.TextOf(bar.Content[0]); text != "200 of 200\n" {
		t.Errorf("a bar of 200 states: %q", text)
	}
	w.must(&count, "tools/call", map[string]any{"name": "count", "arguments": map[string]any{}})
	text, _ := mcp.TextOf(count.Content[0])
	if size, err := json.Marshal(text); err != nil || len(size) > 40<<10 || len(size) < 24<<10 {
		t.Errorf("seq 1 200000 costs %d bytes, error %v", len(size), err)
	}
	uri := regexp.MustCompile(`runnel://tasks/[0-9a-f-]+/log\?after=[0-9]+`).FindString(text)
	if uri == "" {
		t.Fatalf("nothing says how to read the rest: %.300q", text[8000:])
	}
	var log readResourceResult
	w.must(&log, "resources/read", map[string]any{"uri": uri})
	head, _, _ := strings.Cut(text, "[... ")
	if whole := head + log.Contents[0].Text; !strings.HasPrefix(whole, head) ||
		!strings.Contains(whole, "\n9999\n10000\n10001\n") {
		t.Errorf("what stands behind the head is %.100q", log.Contents[0].Text)
	}
	if first, _, _ := strings.Cut(log.Contents[0].Text, "\n"); !strings.HasSuffix(strings.TrimSpace(head),
		"\n"+before(t, first)) {
		t.Errorf("the head ends with %q, and the rest begins with %q", head[max(0, len(head)-20):], first)
	}
	w.end()
}

// before is the number before one.
func before(t *testing.T, number string) string {
	t.Helper()
	var n int
	if err := json.Unmarshal([]byte(number), &n); err != nil {
		t.Fatal(err)
	}
	encoded, _ := json.Marshal(n - 1)
	return string(encoded)
}
