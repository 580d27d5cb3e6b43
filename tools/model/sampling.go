package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tools"
)

// sampled is the client's answer to sampling/createMessage
// (https://modelcontextprotocol.io/specification/2025-11-25/client/sampling). Its content is an item, or a
// list since 2025-11-25.
type sampled struct {
	Content    json.RawMessage `json:"content"`
	Model      string          `json:"model"`
	StopReason string          `json:"stopReason"`
}

// sample asks the client's own model. Its answer comes whole.
func (c *call) sample(ctx context.Context) error {
	if c.in.Asks().Sampling == nil {
		return errors.New("this client does not let runnel ask its model: it does not support sampling. " +
			"Configure another api for this tool")
	}
	settle, err := c.reserve(ctx)
	if err != nil {
		return err
	}
	var messages []any
	add := func(item any) { messages = append(messages, object{"role": "user", "content": item}) }
	for _, p := range c.talk.pictures {
		add(p.item())
	}
	add(mcp.Text(c.talk.prompt))
	params := object{"messages": messages, "maxTokens": c.talk.maxTokens}
	if c.talk.system != "" {
		params["systemPrompt"] = c.talk.system
	}
	if c.talk.model != "" {
		params["modelPreferences"] = object{"hints": []any{object{"name": c.talk.model}}}
	}
	encoded := rawjson.Encode(params)
	c.sent = len(encoded)
	a := &answer{write: c.write}
	c.latest = a
	defer func() { c.count(a); settle(&a.used) }()
	response, err := c.in.Request(ctx, "sampling/createMessage", encoded)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if refused, ok := errors.AsType[*rpc.Error](err); ok {
		err = fmt.Errorf("the client has refused to ask its model: %s", refused.Message)
	}
	if errors.Is(err, tools.ErrCannotAsk) { // it is about sampling here, not about a form
		err = errors.New("the client's model cannot be asked here")
	}
	if err != nil {
		return err
	}
	var s sampled
	if err := json.Unmarshal(response, &s); err != nil {
		return fmt.Errorf("the client's answer cannot be read: %w", err)
	}
	items := []json.RawMessage{s.Content}
	if len(s.Content) > 0 && s.Content[0] == '[' {
		if err := json.Unmarshal(s.Content, &items); err != nil {
			return fmt.Errorf("the client's answer cannot be read: %w", err)
		}
	}
	if s.Model != "" {
		c.used.Model = s.Model
	}
	a.ended = true
	if s.StopReason == "maxTokens" {
		a.stop = stopLength
	}
	for _, item := range items {
		text, ok := mcp.TextOf(item)
		kind := rawjson.StringMember(item, "type")
		if kind == "image" {
			if err := a.picture(rawjson.StringMember(item, "data")); err != nil {
				return fmt.Errorf("the client's answer cannot be read: %w", err)
			}
		} else if !ok {
			text = fmt.Sprintf("[%s, which is not shown]\n", kind)
		}
		if err := a.say(text); err != nil {
			return err
		}
	}
	c.made = a.pictures
	return nil
}
