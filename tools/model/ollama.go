package model

import (
	"encoding/json"
	"fmt"
)

// ollama is the chat API of Ollama (https://docs.ollama.com/api/chat). Its events are lines of JSON.
type ollama struct{}

func (ollama) authorize(key string) map[string]string { return bearer(key) }

func (ollama) request(c *conversation) (path string, body any) {
	var messages []any
	if c.system != "" {
		messages = append(messages, object{"role": "system", "content": c.system})
	}
	prompt := object{"role": "user", "content": c.prompt}
	var images [][]byte // which JSON has in base64
	for _, p := range c.pictures {
		images = append(images, p.data)
	}
	if images != nil {
		prompt["images"] = images
	}
	messages = append(messages, prompt)
	for _, r := range c.rounds {
		messages = append(messages, r.said)
		for _, result := range r.results {
			messages = append(messages, object{"role": "tool", "tool_name": result.name,
				"content": result.text})
		}
	}
	request := object{"model": c.model, "stream": true, "messages": messages,
		"options": object{"num_predict": c.maxTokens}}
	if tools := c.functions(); tools != nil {
		request["tools"] = tools
	}
	switch {
	case c.schema != nil:
		request["format"] = c.schema
	case c.json:
		request["format"] = "json"
	}
	return "/api/chat", request
}

// ollamaCall is a call of a tool, which comes whole.
type ollamaCall struct {
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

func (ollama) answer(a *answer) func(event []byte) error {
	var calls []ollamaCall
	return func(event []byte) error {
		var e struct {
			Message struct {
				Content string       `json:"content"`
				Calls   []ollamaCall `json:"tool_calls"`
			} `json:"message"`
			Done   bool   `json:"done"`
			Reason string `json:"done_reason"`
			Input  int    `json:"prompt_eval_count"`
			Output int    `json:"eval_count"`
			Error  string `json:"error"`
		}
		if err := json.Unmarshal(event, &e); err != nil {
			return unreadable(err)
		}
		if e.Error != "" {
			return &failure{message: e.Error, again: true}
		}
		if calls = append(calls, e.Message.Calls...); len(calls) > maxBlocks {
			return &failure{message: "the answer calls too many tools"}
		}
		for _, call := range e.Message.Calls {
			if err := a.keep(len(call.Function.Name) + len(call.Function.Arguments)); err != nil {
				return err
			}
		}
		if err := a.say(e.Message.Content); err != nil {
			return err
		}
		if !e.Done {
			return nil
		}
		a.ended = true
		a.used.InputTokens, a.used.OutputTokens = e.Input, e.Output
		if e.Reason == "length" {
			a.stop = stopLength
		}
		for i, call := range calls {
			a.calls = append(a.calls,
				toolCall{fmt.Sprintf("call %d", i+1), call.Function.Name,
					argumentsOf(call.Function.Arguments)})
		}
		a.said = object{"role": "assistant", "content": string(a.text), "tool_calls": calls}
		return nil
	}
}
