package model

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"runnel/rpc/rawjson"
)

// chat is the chat completions API of OpenAI, which most other providers, gateways and local servers have,
// too (https://platform.openai.com/docs/api-reference/chat-streaming).
type chat struct {
	own bool // it is OpenAI's own server
}

func (chat) authorize(key string) map[string]string { return bearer(key) }

func (o chat) request(c *conversation) (path string, body any) {
	var messages []any
	if c.system != "" {
		messages = append(messages, object{"role": "system", "content": c.system})
	}
	var content any = c.prompt // not a list, which some local servers do not read
	if c.pictures != nil {
		var parts []any
		for _, p := range c.pictures {
			parts = append(parts, object{"type": "image_url", "image_url": object{"url": p.dataURI()}})
		}
		content = append(parts, object{"type": "text", "text": c.prompt})
	}
	messages = append(messages, object{"role": "user", "content": content})
	for _, r := range c.rounds {
		messages = append(messages, r.said)
		for _, result := range r.results {
			messages = append(messages, object{"role": "tool", "tool_call_id": result.id,
				"content": result.text})
		}
	}
	request := object{"model": c.model, "stream": true, "stream_options": object{"include_usage": true},
		"messages": messages}
	if o.own { // its newer models refuse max_tokens, which is all that others know
		request["max_completion_tokens"] = c.maxTokens
	} else {
		request["max_tokens"] = c.maxTokens
	}
	if tools := c.functions(); tools != nil {
		request["tools"] = tools
	}
	switch {
	case c.schema != nil:
		request["response_format"] = object{"type": "json_schema", "json_schema": object{"name": "answer",
			"schema": c.schema, "strict": isStrict(c.schema)}}
	case c.json:
		request["response_format"] = object{"type": "json_object"}
	}
	return "/chat/completions", request
}

// dataURI returns the picture as a URI (RFC 2397).
func (p *picture) dataURI() string {
	return "data:" + p.mime + ";base64," + base64.StdEncoding.EncodeToString(p.data)
}

// openaiUsage counts tokens, in either of OpenAI's APIs. Input includes what a cache had.
type openaiUsage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	InPrompt   struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	Input   int `json:"input_tokens"`
	Output  int `json:"output_tokens"`
	InInput struct {
		Cached int `json:"cached_tokens"`
	} `json:"input_tokens_details"`
}

func (u *openaiUsage) addTo(used *usage) {
	if u != nil {
		used.InputTokens, used.OutputTokens = u.Prompt+u.Input, u.Completion+u.Output
		used.CachedTokens = u.InPrompt.Cached + u.InInput.Cached
	}
}

// openaiError is what OpenAI says went wrong, in a response or in a stream. Code is a text or a number.
type openaiError struct {
	Message, Type string
	Code          any
}

// UnmarshalJSON reads also an error that is only a text, as local servers send it.
func (e *openaiError) UnmarshalJSON(raw []byte) error {
	if !rawjson.IsObject(raw) {
		e.Message = rawjson.Unquote(raw)
		return nil
	}
	type plain openaiError
	return json.Unmarshal(raw, (*plain)(e))
}

// lastingOpenAI are words in types and codes of errors that do not pass.
var lastingOpenAI = []string{"invalid", "insufficient_quota", "not_found", "authentication", "permission",
	"billing", "content_policy", "context_length_exceeded"}

func (e *openaiError) failure() *failure {
	code, _ := e.Code.(string)
	lasting := slices.ContainsFunc(lastingOpenAI,
		func(word string) bool { return strings.Contains(e.Type, word) || strings.Contains(code, word) })
	return &failure{message: e.Message, again: !lasting}
}

// chatPiece is a piece of a call of a tool.
type chatPiece struct {
	Index    int    `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// chatCall is such a call.
type chatCall struct {
	index     int
	id, name  string
	arguments []byte
}

// find returns the call that the piece belongs to, nil if it begins one. Some providers give all calls the
// index 0, and some repeat the id with each piece.
func (p *chatPiece) find(calls []*chatCall) *chatCall {
	for _, call := range slices.Backward(calls) {
		if call.index == p.Index && (p.ID == "" || p.ID == call.id) {
			return call
		}
	}
	return nil
}

func (chat) answer(a *answer) func(event []byte) error {
	var calls []*chatCall
	return func(event []byte) error {
		if string(event) == "[DONE]" {
			return nil
		}
		var e struct {
			Choices []struct {
				Delta struct {
					Content string      `json:"content"`
					Refusal string      `json:"refusal"`
					Calls   []chatPiece `json:"tool_calls"`
					Images  []struct {  // as OpenRouter has pictures
						At struct {
							URL string `json:"url"`
						} `json:"image_url"`
					} `json:"images"`
				} `json:"delta"`
				Finish string `json:"finish_reason"`
			} `json:"choices"`
			Usage *openaiUsage `json:"usage"`
			Error *openaiError `json:"error"`
		}
		if err := json.Unmarshal(event, &e); err != nil {
			return unreadable(err)
		}
		if e.Error != nil {
			return e.Error.failure()
		}
		e.Usage.addTo(&a.used)
		if len(e.Choices) == 0 {
			return nil
		}
		choice := &e.Choices[0]
		if choice.Delta.Refusal != "" {
			if err := a.refuse(choice.Delta.Refusal); err != nil {
				return err
			}
		}
		for _, image := range choice.Delta.Images {
			if err := a.picture(image.At.URL); err != nil {
				return err
			}
		}
		for _, piece := range choice.Delta.Calls {
			name, arguments := piece.Function.Name, piece.Function.Arguments
			if err := a.keep(len(piece.ID) + len(name) + len(arguments)); err != nil {
				return err
			}
			call := piece.find(calls)
			switch {
			case call != nil:
			case piece.ID == "" && name == "":
				return &failure{message: "the answer has a piece of a call that has not begun"}
			case len(calls) == maxBlocks:
				return &failure{message: "the answer calls too many tools"}
			default:
				call = &chatCall{index: piece.Index, id: piece.ID, name: name}
				calls = append(calls, call)
			}
			call.arguments = append(call.arguments, arguments...)
		}
		if err := a.say(choice.Delta.Content); err != nil {
			return err
		}
		switch choice.Finish {
		case "":
			return nil
		case "length":
			a.stop = stopLength
		case "content_filter":
			a.stop = stopRefuse
		}
		a.ended = true // what comes after it, the usage and [DONE], not all send
		a.said, a.calls = chatTurn(a.text, calls)
		return nil
	}
}

// chatTurn returns an answer in the form in which it goes back, and the calls in it.
func chatTurn(text []byte, pieces []*chatCall) (said any, calls []toolCall) {
	var list []any
	for _, p := range pieces {
		call := toolCall{p.id, p.name, argumentsOf(p.arguments)}
		calls = append(calls, call)
		list = append(list, object{"type": "function", "id": p.id,
			"function": object{"name": p.name, "arguments": string(call.arguments)}})
	}
	return object{"role": "assistant", "content": string(text), "tool_calls": list}, calls
}
