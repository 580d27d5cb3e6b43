package tools

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"runnel/rpc/mcp"
)

func TestFit(t *testing.T) {
	for name, content := range map[string][]mcp.ContentBlock{
		"long text":    {mcp.Text("head\n" + strings.Repeat("line\n", 1<<20) + "tail")},
		"control text": {mcp.Text("head\n" + strings.Repeat("\x01", 1<<20) + "tail")},
		"several texts": {mcp.Text("head"), mcp.Text(strings.Repeat("x", 3<<20)),
			mcp.Text(strings.Repeat("y", 3<<20)), mcp.Text("tail")},
		"many items":  {mcp.Text("head" + strings.Repeat("tail", 25))},
		"large image": {mcp.Text("head"), mcp.Image(make([]byte, 2<<20), "image/png"), mcp.Text("tail")},
	} {
		if name == "many items" {
			content = append(slices.Repeat(content, 20_000), mcp.Text(strings.Repeat("x", 2<<20)))
		}
		fitted := ownLimits.apply(&mcp.CallToolResult{Content: content})
		line, err := json.Marshal(fitted)
		if err != nil {
			t.Fatal(err)
		}
		if len(line) >= 1<<20 {
			t.Errorf("%s: %d bytes", name, len(line))
		}
		for _, part := range []string{"head", "tail"} {
			if !strings.Contains(string(line), part) {
				t.Errorf("%s: %s is lost", name, part)
			}
		}
	}
	structured := &mcp.CallToolResult{StructuredContent: json.RawMessage(`{"a":"` +
		strings.Repeat("x", 1<<20) + `"}`)}
	if fitted := ownLimits.apply(structured); fitted.StructuredContent != nil || len(fitted.Content) != 1 ||
		!strings.Contains(string(fitted.Content[0]), "too large") {
		t.Errorf("structured content that is too large: %s", fitted.Content)
	}
	small := &mcp.CallToolResult{Content: []mcp.ContentBlock{mcp.Text("small")}}
	if ownLimits.apply(small) != small {
		t.Error("a small result was changed")
	}
}
