package model

import (
	"encoding/json"

	"runnel/rpc/rawjson"
)

// responses is the Responses API of OpenAI
// (https://platform.openai.com/docs/api-reference/responses-streaming). Nothing is stored there: each request
// has the whole conversation.
type responses struct{}

func (responses) authorize(key string) map[string]string { return bearer(key) }

func (responses) request(c *conversation) (path string, body any) {
	var content []any
	for _, p := range c.pictures {
		content = append(content, object{"type": "input_image", "image_url": p.dataURI()})
	}
	content = append(content, object{"type": "input_text", "text": c.prompt})
	input := []any{object{"role": "user", "content": content}}
	for _, r := range c.rounds {
		items, _ := r.said.([]any)
		input = append(input, items...)
		for _, result := range r.results {
			input = append(input, object{"type": "function_call_output", "call_id": result.id,
				"output": result.text})
		}
	}
	request := object{"model": c.model, "stream": true, "store": false, "max_output_tokens": c.maxTokens,
		"input": input}
	if c.system != "" {
		request["instructions"] = c.system
	}
	var tools []any
	for _, t := range c.tools {
		tools = append(tools, object{"type": "function", "name": t.Name, "description": t.Description,
			"parameters": t.InputSchema, "strict": false})
	}
	if tools != nil {
		request["tools"] = tools
	}
	switch {
	case c.schema != nil:
		request["text"] = object{"format": object{"type": "json_schema", "name": "answer", "schema": c.schema,
			"strict": isStrict(c.schema)}}
	case c.json:
		request["text"] = object{"format": object{"type": "json_object"}}
	}
	return "/responses", request
}

func (responses) answer(a *answer) func(event []byte) error {
	var items []any
	return func(event []byte) error {
		if string(event) == "[DONE]" {
			return nil
		}
		var e struct {
			Type  string          `json:"type"`
			Delta json.RawMessage `json:"delta"` // a text in the events that are read
			Item  struct {
				Type      string `json:"type"`
				CallID    string `json:"call_id"`
				Name      string `json:"name"`
				Arguments string `json:"arguments"`
				Result    string `json:"result"` // a picture
			} `json:"item"`
			Response struct {
				Usage      *openaiUsage `json:"usage"`
				Error      *openaiError `json:"error"`
				Incomplete struct {
					Reason string `json:"reason"`
				} `json:"incomplete_details"`
			} `json:"response"`
			Error   *openaiError `json:"error"` // of an error, which others have in these two
			Message string       `json:"message"`
			Code    any          `json:"code"`
		}
		if err := json.Unmarshal(event, &e); err != nil {
			return unreadable(err)
		}
		switch e.Type {
		case "response.output_text.delta":
			return a.say(rawjson.Unquote(e.Delta))
		case "response.refusal.delta":
			return a.refuse(rawjson.Unquote(e.Delta))
		case "response.output_item.done":
			switch e.Item.Type {
			case "image_generation_call":
				return a.picture(e.Item.Result)
			case "function_call":
			default:
				return nil
			}
			if len(a.calls) == maxBlocks {
				return &failure{message: "the answer calls too many tools"}
			}
			if err := a.keep(len(e.Item.CallID) + len(e.Item.Name) + len(e.Item.Arguments)); err != nil {
				return err
			}
			call := toolCall{e.Item.CallID, e.Item.Name, argumentsOf([]byte(e.Item.Arguments))}
			a.calls = append(a.calls, call)
			// Without its id: the server would look for the thoughts that led to it, and stores none.
			items = append(items, object{"type": "function_call", "call_id": call.id, "name": call.name,
				"arguments": string(call.arguments)})
		case "response.incomplete":
			a.stop = stopLength
			if e.Response.Incomplete.Reason == "content_filter" {
				a.stop = stopRefuse
			}
			fallthrough
		case "response.completed":
			e.Response.Usage.addTo(&a.used)
			a.ended = true
			if len(a.text) > 0 {
				items = append([]any{object{"role": "assistant", "content": string(a.text)}}, items...)
			}
			a.said = items
		case "response.failed":
			if e.Response.Error != nil {
				return e.Response.Error.failure()
			}
			return &failure{message: "the answer has failed", again: true}
		case "error":
			if e.Error != nil {
				return e.Error.failure()
			}
			return (&openaiError{Message: e.Message, Code: e.Code}).failure()
		}
		return nil
	}
}
