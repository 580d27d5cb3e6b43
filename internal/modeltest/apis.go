package modeltest

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"strings"
)

// The events of each API are those that its provider's own Go library is tested with, with all members that
// they have there: anthropic-sdk-go v1.84.0 (opentelemetry_test.go, betatoolrunner_test.go), openai-go
// v3.99.0 (streamaccumulator_limits_test.go, deferred_tools_test.go), ollama's api/types.go.

// anthropic spells an answer as the Messages API does.
func anthropic(a *Answer) (before, pieces, after []string) {
	before = []string{
		named("message_start", `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-served","content":[],"stop_reason":null,"usage":{"input_tokens":%d,"output_tokens":1,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0},"service_tier":"standard"}}}`, a.Input),
		named("content_block_start",
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`),
		named("ping", `{"type":"ping"}`),
	}
	for _, token := range a.Tokens {
		pieces = append(pieces, named("content_block_delta",
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%s}}`, quote(token)))
	}
	after = []string{named("content_block_stop", `{"type":"content_block_stop","index":0}`)}
	stop := "end_turn"
	for i, call := range a.Calls {
		stop = "tool_use"
		half := len(call.Arguments) / 2
		after = append(after,
			named("content_block_start", `{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":%s,"name":%s,"input":{}}}`, i+1, quote(call.ID), quote(call.Name)),
			named("content_block_delta", `{"type":"content_block_delta","index":%d,"delta":{"type":"input_json_delta","partial_json":%s}}`, i+1, quote(call.Arguments[:half])),
			named("content_block_delta", `{"type":"content_block_delta","index":%d,"delta":{"type":"input_json_delta","partial_json":%s}}`, i+1, quote(call.Arguments[half:])),
			named("content_block_stop", `{"type":"content_block_stop","index":%d}`, i+1))
	}
	return before, pieces, append(after,
		named("message_delta", `{"type":"message_delta","delta":{"stop_reason":%s,"stop_sequence":null},"usage":{"output_tokens":%d,"output_tokens_details":{"thinking_tokens":0}}}`, quote(cmp.Or(a.Stop, stop)), a.Output),
		named("message_stop", `{"type":"message_stop"}`))
}

// chat spells an answer as chat completions do.
func chat(a *Answer) (before, pieces, after []string) {
	chunk := func(delta, finish string) string {
		return unnamed(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1694268190,"model":"gpt-served","system_fingerprint":"fp_1","choices":[{"index":0,"delta":%s,"logprobs":null,"finish_reason":%s}],"usage":null}`, delta, finish)
	}
	before = []string{": OPENROUTER PROCESSING\n\n",
		chunk(`{"role":"assistant","content":"","refusal":null}`, "null")}
	for _, token := range a.Tokens {
		pieces = append(pieces, chunk(`{"content":`+quote(token)+`}`, "null"))
	}
	for range 2 { // it may repeat them
		for _, image := range a.Images {
			after = append(after, chunk(fmt.Sprintf(`{"role":"assistant","content":"","images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,%s"},"index":0}]}`,
				base64.StdEncoding.EncodeToString(image)), "null"))
		}
	}
	stop := "stop"
	for i, call := range a.Calls {
		stop = "tool_calls"
		half := len(call.Arguments) / 2
		after = append(after,
			chunk(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":%s,"type":"function","function":{"name":%s,"arguments":""}}]}`, i, quote(call.ID), quote(call.Name)), "null"),
			chunk(fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, i,
				quote(call.Arguments[:half])), "null"),
			chunk(fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, i,
				quote(call.Arguments[half:])), "null"))
	}
	return before, pieces, append(after, chunk(`{}`, quote(cmp.Or(a.Stop, stop))),
		unnamed(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1694268190,"model":"gpt-served","choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}}`, a.Input, a.Output, a.Input+a.Output),
		unnamed("[DONE]"))
}

// responses spells an answer as the Responses API does.
func responses(a *Answer) (before, pieces, after []string) {
	n := 0
	event := func(kind, members string) string {
		n++
		return named(kind, `{"type":%s,"sequence_number":%d,%s}`, quote(kind), n-1, members)
	}
	before = []string{
		event("response.created",
			`"response":{"id":"resp_1","object":"response","status":"in_progress","output":[],"usage":null}`),
		event("response.output_item.added", `"output_index":0,"item":{"id":"msg_1","type":"message","status":"in_progress","role":"assistant","content":[]}`),
		event("response.content_part.added", `"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}`),
	}
	for _, token := range a.Tokens {
		pieces = append(pieces, event("response.output_text.delta",
			`"item_id":"msg_1","output_index":0,"content_index":0,"delta":`+quote(token)+`,"logprobs":[]`))
	}
	text := quote(strings.Join(a.Tokens, ""))
	after = []string{
		event("response.output_text.done",
			`"item_id":"msg_1","output_index":0,"content_index":0,"text":`+text),
		event("response.output_item.done", `"output_index":0,"item":{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","annotations":[],"text":`+text+`}]}`),
	}
	output := ""
	for i, image := range a.Images {
		item := fmt.Sprintf(`{"id":"ig_%d","type":"image_generation_call","status":"completed","background":"opaque","output_format":"png","quality":"high","result":%s,"revised_prompt":"a dot","size":"1024x1024"}`, i, quote(base64.StdEncoding.EncodeToString(image)))
		after = append(after, event("response.output_item.done",
			fmt.Sprintf(`"output_index":%d,"item":%s`, i+1, item)))
		output = item
	}
	for i, call := range a.Calls {
		item := fmt.Sprintf(`{"id":"fc_%d","type":"function_call","status":"completed","call_id":%s,"name":%s,"arguments":%s}`, i, quote(call.ID), quote(call.Name), quote(call.Arguments))
		after = append(after,
			event("response.function_call_arguments.delta",
				fmt.Sprintf(`"item_id":"fc_%d","output_index":%d,"delta":%s`, i, i+1, quote(call.Arguments))),
			event("response.output_item.done", fmt.Sprintf(`"output_index":%d,"item":%s`, i+1, item)))
	}
	kind, details := "response.completed", "null"
	if a.Stop != "" {
		kind, details = "response.incomplete", `{"reason":`+quote(a.Stop)+`}`
	}
	return before, pieces, append(after, event(kind, fmt.Sprintf(
		`"response":{"id":"resp_1","object":"response","status":%s,"incomplete_details":%s,"error":null,"output":[%s],"usage":{"input_tokens":%d,"input_tokens_details":{"cached_tokens":0},"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":%d}}`,
		quote(strings.TrimPrefix(kind, "response.")), details, output, a.Input, a.Output, a.Input+a.Output)))
}

// ollama spells an answer as Ollama does, in lines.
func ollama(a *Answer) (before, pieces, after []string) {
	line := func(message, rest string) string {
		return `{"model":"served","created_at":"2025-10-17T23:14:07.414671Z","message":` +
			message + rest + "}\n"
	}
	for _, token := range a.Tokens {
		pieces = append(pieces, line(`{"role":"assistant","content":`+quote(token)+`}`, `,"done":false`))
	}
	for _, call := range a.Calls {
		after = append(after, line(`{"role":"assistant","content":"","tool_calls":[{"function":{"name":`+
			quote(call.Name)+`,"arguments":`+call.Arguments+`}}]}`, `,"done":false`))
	}
	return nil, pieces, append(after, line(`{"role":"assistant","content":""}`, fmt.Sprintf(
		`,"done":true,"done_reason":%s,"total_duration":174560334,"load_duration":101397084,"prompt_eval_count":%d,"prompt_eval_duration":13074791,"eval_count":%d,"eval_duration":52479709`,
		quote(cmp.Or(a.Stop, "stop")), a.Input, a.Output)))
}
