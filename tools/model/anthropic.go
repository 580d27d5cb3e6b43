package model

import (
	"encoding/base64"
	"encoding/json"
	"slices"
)

// anthropic is the Messages API of Anthropic (https://docs.anthropic.com/en/api/messages), as it streams
// (https://docs.anthropic.com/en/docs/build-with-claude/streaming).
type anthropic struct{}

func (anthropic) authorize(key string) map[string]string {
	header := map[string]string{"Anthropic-Version": "2023-06-01"}
	if key != "" {
		header["X-Api-Key"] = key
	}
	return header
}

func (anthropic) request(c *conversation) (path string, body any) {
	var content []any
	for _, p := range c.pictures {
		content = append(content, object{"type": "image", "source": object{"type": "base64",
			"media_type": p.mime, "data": base64.StdEncoding.EncodeToString(p.data)}})
	}
	content = append(content, object{"type": "text", "text": c.prompt})
	messages := []any{object{"role": "user", "content": content}}
	for _, r := range c.rounds {
		messages = append(messages, object{"role": "assistant", "content": r.said})
		var results []any
		for _, result := range r.results {
			results = append(results, object{"type": "tool_result", "tool_use_id": result.id,
				"content": result.text, "is_error": result.failed})
		}
		messages = append(messages, object{"role": "user", "content": results})
	}
	request := object{"model": c.model, "max_tokens": c.maxTokens, "stream": true, "messages": messages}
	if c.system != "" {
		request["system"] = c.system
	}
	var tools []any
	for _, t := range c.tools {
		tools = append(tools, object{"name": t.Name, "description": t.Description,
			"input_schema": t.InputSchema})
	}
	if tools != nil {
		request["tools"] = tools
	}
	if schema := closed(c.schema); schema != nil {
		request["output_config"] = object{"format": object{"type": "json_schema", "schema": schema}}
	}
	return "/v1/messages", request
}

// object is a JSON object.
type object = map[string]any

// anthropicBlock is a block of an answer: text, thinking, or a call of a tool. All go back to the model with
// the results of its calls, as they came.
type anthropicBlock struct {
	Type string `json:"type"`
	Text string `json:"text"` // its beginning
	ID   string `json:"id"`
	Name string `json:"name"`

	whole                            json.RawMessage // as it began
	text, input, thinking, signature []byte          // what has come
}

// anthropicUsage counts tokens; input does not include what a cache had, or took.
type anthropicUsage struct {
	Input   int `json:"input_tokens"`
	Created int `json:"cache_creation_input_tokens"`
	Read    int `json:"cache_read_input_tokens"`
	Output  int `json:"output_tokens"`
}

// transientAnthropic are the types of errors that may pass.
var transientAnthropic = []string{"overloaded_error", "api_error", "rate_limit_error", "timeout_error"}

func (anthropic) answer(a *answer) func(event []byte) error {
	var blocks []*anthropicBlock
	return func(event []byte) error {
		var e struct {
			Type    string `json:"type"`
			Message struct {
				Usage anthropicUsage `json:"usage"`
			} `json:"message"`
			Index int             `json:"index"`
			Block json.RawMessage `json:"content_block"`
			Delta struct {
				Text      string `json:"text"`
				Input     string `json:"partial_json"`
				Thinking  string `json:"thinking"`
				Signature string `json:"signature"`
				Stop      string `json:"stop_reason"`
			} `json:"delta"`
			Usage anthropicUsage `json:"usage"`
			Error struct{ Type, Message string }
		}
		if err := json.Unmarshal(event, &e); err != nil {
			return unreadable(err)
		}
		switch e.Type {
		case "message_start":
			u := e.Message.Usage
			a.used.InputTokens, a.used.CachedTokens = u.Input+u.Created+u.Read, u.Read
			a.used.OutputTokens = u.Output
		case "content_block_start":
			b := &anthropicBlock{}
			if err := json.Unmarshal(e.Block, b); err != nil || len(blocks) == maxBlocks {
				return unreadable(err)
			}
			if err := a.keep(len(e.Block)); err != nil {
				return err
			}
			b.whole, b.text = e.Block, []byte(b.Text)
			blocks = append(blocks, b)
			return a.say(b.Text)
		case "content_block_delta":
			if e.Index < 0 || e.Index >= len(blocks) {
				return &failure{message: "the answer has a piece of a block that has not begun"}
			}
			b, d := blocks[e.Index], &e.Delta
			if err := a.keep(len(d.Thinking) + len(d.Signature) + len(d.Input)); err != nil {
				return err
			}
			b.text = append(b.text, d.Text...)
			b.thinking = append(b.thinking, d.Thinking...)
			b.signature = append(b.signature, d.Signature...)
			b.input = append(b.input, d.Input...)
			return a.say(d.Text)
		case "message_delta":
			a.used.OutputTokens = max(a.used.OutputTokens, e.Usage.Output)
			switch e.Delta.Stop {
			case "max_tokens", "model_context_window_exceeded":
				a.stop = stopLength
			case "refusal":
				a.stop = stopRefuse
			}
		case "message_stop":
			a.ended = true
			a.said, a.calls = anthropicTurn(blocks)
		case "error":
			return &failure{message: e.Error.Type + ": " + e.Error.Message,
				again: slices.Contains(transientAnthropic, e.Error.Type)}
		}
		return nil
	}
}

// maxBlocks bounds the blocks of an answer, and the calls in it.
const maxBlocks = 1000

// anthropicTurn returns an answer in the form in which it goes back, and the calls in it.
func anthropicTurn(blocks []*anthropicBlock) (said []any, calls []toolCall) {
	for _, b := range blocks {
		switch b.Type {
		case "text":
			if len(b.text) > 0 { // an empty one is refused
				said = append(said, object{"type": "text", "text": string(b.text)})
			}
		case "thinking":
			said = append(said, object{"type": "thinking", "thinking": string(b.thinking),
				"signature": string(b.signature)})
		case "tool_use":
			call := toolCall{b.ID, b.Name, argumentsOf(b.input)}
			calls = append(calls, call)
			said = append(said, object{"type": "tool_use", "id": b.ID, "name": b.Name,
				"input": call.arguments})
		default:
			said = append(said, b.whole)
		}
	}
	return said, calls
}

// argumentsOf returns the arguments of a call as a JSON object: a model that passes none often writes
// nothing. What is no JSON passes as text, which the tool's schema refuses in words that the model reads.
func argumentsOf(text []byte) json.RawMessage {
	switch {
	case len(text) == 0, string(text) == "null":
		return json.RawMessage("{}")
	case !json.Valid(text):
		quoted, _ := json.Marshal(string(text)) // never fails for a string
		return quoted
	}
	return text
}
