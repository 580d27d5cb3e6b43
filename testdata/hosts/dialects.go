package hosts

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// Anthropic Messages.
var messages = dialect{
	path: regexp.MustCompile(`/messages$`),
	read: func(_ string, body []byte) (conversation, error) {
		var in struct {
			Stream   bool
			Tools    []struct{ Name string }
			Messages []struct {
				Content json.RawMessage
			}
		}
		if err := json.Unmarshal(body, &in); err != nil {
			return conversation{}, err
		}
		c := conversation{stream: in.Stream}
		for _, t := range in.Tools {
			c.tools = append(c.tools, toolName{name: t.Name})
		}
		for _, m := range in.Messages {
			var blocks []struct {
				Type      string
				ToolUseID string `json:"tool_use_id"`
				Content   json.RawMessage
				Text      string
			}
			if text := textOf(m.Content); json.Unmarshal(m.Content, &blocks) != nil &&
				strings.Contains(text, "<task-notification>") {
				c.notes = append(c.notes, text)
			}
			for _, b := range blocks {
				if b.Type == "tool_result" {
					c.results = append(c.results, Result{b.ToolUseID, textOf(b.Content)})
				}
				if strings.Contains(b.Text, "<task-notification>") {
					c.notes = append(c.notes, b.Text)
				}
			}
		}
		return c, nil
	},
	answer: func(w *events, c conversation, text string, calls []toolCall) {
		stop := "end_turn"
		var blocks []object
		if text != "" {
			blocks = append(blocks, object{"type": "text", "text": text})
		}
		for _, call := range calls {
			stop = "tool_use"
			blocks = append(blocks, object{"type": "tool_use", "id": call.id, "name": call.tool.name,
				"input": call.args})
		}
		usage := object{"input_tokens": 10, "output_tokens": 10}
		message := object{"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted",
			"content":     blocks,
			"stop_reason": stop, "stop_sequence": nil, "usage": usage}
		if !c.stream {
			w.text(encode(message))
			return
		}
		message["content"], message["stop_reason"] = []object{}, nil
		w.event("message_start", object{"type": "message_start", "message": message})
		for i, b := range blocks {
			delta := object{"type": "text_delta", "text": text}
			if b["type"] == "text" {
				b["text"] = ""
			} else {
				delta = object{"type": "input_json_delta", "partial_json": encode(b["input"])}
				b["input"] = object{}
			}
			w.event("content_block_start",
				object{"type": "content_block_start", "index": i, "content_block": b})
			w.event("content_block_delta", object{"type": "content_block_delta", "index": i, "delta": delta})
			w.event("content_block_stop", object{"type": "content_block_stop", "index": i})
		}
		w.event("message_delta", object{"type": "message_delta",
			"delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": usage})
		w.event("message_stop", object{"type": "message_stop"})
	},
}

// OpenAI Responses.
var responses = dialect{
	path: regexp.MustCompile(`/responses$`),
	read: func(_ string, body []byte) (conversation, error) {
		var in struct {
			Stream bool
			Tools  []struct {
				Type, Name string
				Tools      []struct{ Name string }
			}
			Input json.RawMessage
		}
		if err := json.Unmarshal(body, &in); err != nil {
			return conversation{}, err
		}
		c := conversation{stream: in.Stream}
		for _, t := range in.Tools {
			if t.Type == "namespace" {
				for _, inner := range t.Tools {
					c.tools = append(c.tools, toolName{t.Name, inner.Name})
				}
				continue
			}
			c.tools = append(c.tools, toolName{name: t.Name})
		}
		var items []struct {
			Type   string
			CallID string `json:"call_id"`
			Output json.RawMessage
		}
		_ = json.Unmarshal(in.Input, &items) // else a string
		for _, item := range items {
			if item.Type == "function_call_output" {
				c.results = append(c.results, Result{item.CallID, textOf(item.Output)})
			}
		}
		return c, nil
	},
	answer: func(w *events, c conversation, text string, calls []toolCall) {
		var items []object
		if text != "" {
			items = append(items, object{"type": "message", "id": "msg_1", "role": "assistant",
				"status":  "completed",
				"content": []object{{"type": "output_text", "text": text, "annotations": []any{}}}})
		}
		for _, call := range calls {
			item := object{"type": "function_call", "id": "fc_" + call.id, "call_id": call.id,
				"name": call.tool.name, "arguments": encode(call.args), "status": "completed"}
			if call.tool.namespace != "" {
				item["namespace"] = call.tool.namespace
			}
			items = append(items, item)
		}
		response := object{"id": "resp_1", "object": "response", "created_at": 1, "model": "scripted",
			"status": "completed", "output": items,
			"usage": object{"input_tokens": 10, "output_tokens": 10, "total_tokens": 20,
				"input_tokens_details":  object{"cached_tokens": 0},
				"output_tokens_details": object{"reasoning_tokens": 0}}}
		if !c.stream {
			w.text(encode(response))
			return
		}
		n := 0
		event := func(kind string, data object) {
			data["type"], data["sequence_number"] = kind, n
			n++
			w.event(kind, data)
		}
		event("response.created", object{"response": object{"id": "resp_1", "object": "response",
			"created_at": 1, "model": "scripted", "status": "in_progress", "output": []any{}}})
		for i, item := range items {
			event("response.output_item.added", object{"output_index": i, "item": item})
			if item["type"] == "message" {
				at := object{"item_id": item["id"], "output_index": i, "content_index": 0}
				event("response.content_part.added",
					with(at, object{"part": object{"type": "output_text", "text": "",
						"annotations": []any{}}}))
				event("response.output_text.delta", with(at, object{"delta": text}))
				event("response.output_text.done", with(at, object{"text": text}))
				event("response.content_part.done",
					with(at, object{"part": object{"type": "output_text", "text": text,
						"annotations": []any{}}}))
			} else {
				event("response.function_call_arguments.delta",
					object{"item_id": item["id"], "output_index": i, "delta": item["arguments"]})
				event("response.function_call_arguments.done",
					object{"item_id": item["id"], "output_index": i, "arguments": item["arguments"]})
			}
			event("response.output_item.done", object{"output_index": i, "item": item})
		}
		event("response.completed", object{"response": response})
	},
}

func with(a, b object) object {
	all := object{}
	for _, m := range []object{a, b} {
		for k, v := range m {
			all[k] = v
		}
	}
	return all
}

// OpenAI Chat Completions.
var chat = dialect{
	path: regexp.MustCompile(`/chat/completions$`),
	read: func(_ string, body []byte) (conversation, error) {
		var in struct {
			Stream   bool
			Tools    []struct{ Function struct{ Name string } }
			Messages []struct {
				Role       string
				ToolCallID string `json:"tool_call_id"`
				Content    json.RawMessage
			}
		}
		if err := json.Unmarshal(body, &in); err != nil {
			return conversation{}, err
		}
		c := conversation{stream: in.Stream}
		for _, t := range in.Tools {
			c.tools = append(c.tools, toolName{name: t.Function.Name})
		}
		for _, m := range in.Messages {
			if m.Role == "tool" {
				c.results = append(c.results, Result{m.ToolCallID, textOf(m.Content)})
			}
		}
		return c, nil
	},
	answer: func(w *events, c conversation, text string, calls []toolCall) {
		message, stop := object{"role": "assistant", "content": text}, "stop"
		var tools []object
		for i, call := range calls {
			stop = "tool_calls"
			tools = append(tools, object{"index": i, "id": call.id, "type": "function",
				"function": object{"name": call.tool.name, "arguments": encode(call.args)}})
		}
		if tools != nil {
			message["tool_calls"] = tools
		}
		usage := object{"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
		whole := object{"id": "chatcmpl-1", "created": 1, "model": "scripted"}
		if !c.stream {
			w.text(encode(with(whole, object{"object": "chat.completion", "usage": usage,
				"choices": []object{{"index": 0, "message": message, "finish_reason": stop}}})))
			return
		}
		whole["object"] = "chat.completion.chunk"
		w.event("", with(whole, object{"choices": []object{{"index": 0, "delta": message,
			"finish_reason": nil}}}))
		w.event("", with(whole, object{"choices": []object{{"index": 0, "delta": object{},
			"finish_reason": stop}}, "usage": usage}))
		w.text("data: [DONE]\n\n")
	},
}

// Gemini. Its calls need no ids: results come in the order of the calls.
var gemini = dialect{
	path: regexp.MustCompile(`:(streamGenerateContent|generateContent)$`),
	read: func(path string, body []byte) (conversation, error) {
		var in struct {
			Tools []struct {
				FunctionDeclarations []struct{ Name string }
			}
			Contents []struct {
				Parts []struct {
					FunctionResponse *struct {
						Response json.RawMessage
					}
				}
			}
		}
		if err := json.Unmarshal(body, &in); err != nil {
			return conversation{}, err
		}
		c := conversation{stream: strings.HasSuffix(path, ":streamGenerateContent")}
		for _, t := range in.Tools {
			for _, f := range t.FunctionDeclarations {
				c.tools = append(c.tools, toolName{name: f.Name})
			}
		}
		for _, content := range in.Contents {
			for _, p := range content.Parts {
				if p.FunctionResponse == nil {
					continue
				}
				text := string(p.FunctionResponse.Response)
				var says map[string]json.RawMessage
				if json.Unmarshal(p.FunctionResponse.Response, &says) == nil && len(says) == 1 {
					for _, v := range says { // {"output": "..."} or {"error": "..."}
						text = textOf(v)
					}
				}
				c.results = append(c.results, Result{fmt.Sprintf("call_%d", len(c.results)), text})
			}
		}
		return c, nil
	},
	answer: func(w *events, c conversation, text string, calls []toolCall) {
		var parts []object
		if text != "" {
			parts = append(parts, object{"text": text})
		}
		for _, call := range calls {
			parts = append(parts, object{"functionCall": object{"id": call.id, "name": call.tool.name,
				"args": call.args}})
		}
		answer := object{"candidates": []object{{"index": 0, "finishReason": "STOP",
			"content": object{"role": "model", "parts": parts}}},
			"usageMetadata": object{"promptTokenCount": 10, "candidatesTokenCount": 10,
				"totalTokenCount": 20}, "modelVersion": "scripted"}
		if c.stream {
			w.event("", answer)
		} else {
			w.text(encode(answer))
		}
	},
}
