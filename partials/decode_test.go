package partials

import (
	"encoding/json"
	"fmt"

	"runnel/rpc/mcp"
)

// DecodeSEP2679 reads a line that NewSEP2679's dialect wrote.
func DecodeSEP2679(line []byte) (mcp.TaskPartial, error) {
	var m struct {
		Method string          `json:"method"`
		Params mcp.TaskPartial `json:"params"`
	}
	m.Params.Seq = -1
	if err := json.Unmarshal(line, &m); err != nil {
		return mcp.TaskPartial{}, fmt.Errorf("reading a partial: %w", err)
	}
	if m.Params.Seq < 0 || len(m.Params.Content) == 0 {
		return mcp.TaskPartial{}, fmt.Errorf("reading a partial: seq %d with %d content items", m.Params.Seq,
			len(m.Params.Content))
	}
	if m.Method != "notifications/tasks/partial" {
		return mcp.TaskPartial{}, fmt.Errorf("reading a partial: method is %q", m.Method)
	}
	return m.Params, nil
}

// Segment is one content item of a SEP-1905 stream.
type Segment struct {
	SeqNr int64
	Item  json.RawMessage // with its seqNr
}

// StreamingResult is what a result with partial-content holds.
type StreamingResult struct {
	Segments   []Segment
	IsError    bool
	IsComplete bool
}

// DecodeSEP1905 reads a response that carries partial-content.
func DecodeSEP1905(line []byte) (StreamingResult, error) {
	var m struct {
		Result struct {
			Content    []json.RawMessage `json:"partial-content"`
			IsError    bool              `json:"isError"`
			IsComplete bool              `json:"isComplete"`
		} `json:"result"`
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return StreamingResult{}, fmt.Errorf("reading a streaming response: %w", err)
	}
	r := StreamingResult{IsError: m.Result.IsError, IsComplete: m.Result.IsComplete}
	for _, item := range m.Result.Content {
		var n struct {
			SeqNr int64 `json:"seqNr"`
		}
		if err := json.Unmarshal(item, &n); err != nil || n.SeqNr < 1 {
			return StreamingResult{}, fmt.Errorf("reading a streaming response: seqNr %d must be 1 or more",
				n.SeqNr)
		}
		r.Segments = append(r.Segments, Segment{SeqNr: n.SeqNr, Item: item})
	}
	return r, nil
}

// PartialResult is the partialResult of a progress notification (PR #383).
type PartialResult struct {
	Progress float64
	Content  []json.RawMessage
	Append   bool
	Last     bool
}

// DecodePR383 reads a progress notification that carries a partial result.
func DecodePR383(line []byte) (PartialResult, error) {
	var m struct {
		Params struct {
			Progress float64 `json:"progress"`
			Partial  *struct {
				Chunk struct {
					Content []json.RawMessage `json:"content"`
				} `json:"chunk"`
				Append bool `json:"append"`
				Last   bool `json:"lastChunk"`
			} `json:"partialResult"`
		} `json:"params"`
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return PartialResult{}, fmt.Errorf("reading a partial result: %w", err)
	}
	p := m.Params.Partial
	if p == nil {
		return PartialResult{}, fmt.Errorf("reading a partial result: there is none")
	}
	return PartialResult{Progress: m.Params.Progress, Content: p.Chunk.Content, Append: p.Append,
		Last: p.Last}, nil
}

// DecodeSEP2998 reads a line that NewSEP2998's dialect wrote.
func DecodeSEP2998(line []byte) (mcp.PartialToolResult, error) {
	var m struct {
		Method string                `json:"method"`
		Params mcp.PartialToolResult `json:"params"`
	}
	m.Params.Seq = -1
	if err := json.Unmarshal(line, &m); err != nil {
		return mcp.PartialToolResult{}, fmt.Errorf("reading a partial result: %w", err)
	}
	if m.Method != "notifications/tools/partial_result" {
		return mcp.PartialToolResult{}, fmt.Errorf("reading a partial result: method is %q", m.Method)
	}
	if m.Params.Seq < 0 {
		return mcp.PartialToolResult{}, fmt.Errorf("reading a partial result: seq is missing or negative")
	}
	return m.Params, nil
}
