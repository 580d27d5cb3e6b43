package run

import (
	"bytes"
	"encoding/json"
	"strings"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tools/secrets"
)

// Secrets returns the values that the run must not show, as they were when it began; nil if there are none.
// Use it to mask output before it is appended to the log.
func (r *Run) Secrets() *secrets.Set { return r.secrets }

// Secrets returns the values that a run which starts now must not show; nil if there are none.
func (r *Runner) Secrets() *secrets.Set { return r.o.Secrets.Set() }

// mask masks secrets in the outcome of work. Its output was masked before it reached the log.
func (d *Done) mask(s *secrets.Set) {
	if s == nil || d.Masked {
		return
	}
	d.Status, d.Result = s.String(d.Status), MaskResult(s, d.Result)
	if d.Rest != nil {
		d.Rest = new(MaskContent(s, *d.Rest))
	}
}

// MaskResult returns a result with its secrets masked.
func MaskResult(s *secrets.Set, result *mcp.CallToolResult) *mcp.CallToolResult {
	if s == nil || result == nil {
		return result
	}
	masked := *result
	masked.Content = MaskContent(s, result.Content)
	masked.StructuredContent, masked.Others = s.JSON(result.StructuredContent), s.JSON(result.Others)
	if meta := rawjson.Encode(result.Meta); !bytes.Equal(s.JSON(meta), meta) {
		var raw map[string]json.RawMessage
		_ = json.Unmarshal(s.JSON(meta), &raw) // an object stays an object
		masked.Meta = mcp.RawMeta(raw)
	}
	return &masked
}

// MaskContent returns content with its secrets masked. Neighbouring texts between which a secret is divided
// become one text: a reader takes them together, as the log does.
func MaskContent(s *secrets.Set, content []mcp.ContentBlock) []mcp.ContentBlock {
	if s == nil {
		return content
	}
	masked := make([]mcp.ContentBlock, 0, len(content))
	var texts []string // of the items that masked ends with
	join := func() {
		if len(texts) > 1 {
			whole := strings.Join(texts, "")
			if clean := s.String(whole); clean != whole {
				masked = append(masked[:len(masked)-len(texts)], mcp.Text(clean))
			}
		}
		texts = texts[:0]
	}
	for _, item := range content {
		item = s.JSON(item)
		text, isText := mcp.TextOf(item)
		isText = isText && !mcp.IsEnd(item)
		if !isText {
			join()
		}
		masked = append(masked, item)
		if isText {
			texts = append(texts, text)
		}
	}
	join()
	return masked
}

// HideError returns an error with its secrets masked.
func HideError(s *secrets.Set, e *rpc.Error) *rpc.Error {
	if s == nil || e == nil {
		return e
	}
	masked := *e
	masked.Message = s.String(e.Message)
	if e.Data != nil {
		masked.Data = s.JSON(rawjson.Encode(e.Data))
	}
	return &masked
}
