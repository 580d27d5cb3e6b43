package mcp

import (
	"bytes"
	"encoding/json"
)

// A result may come from another server, whose members and numbers pass as they are. So it is encoded and decoded by hand: encoding/json would drop
// a member that no field has, and round a number of _meta above 2^53.

// MarshalJSON implements json.Marshaler.
func (r CallToolResult) MarshalJSON() ([]byte, error) { return r.encode(nil) }

// encode encodes the result after the members that begin it, if any.
func (r *CallToolResult) encode(dst []byte) ([]byte, error) {
	if dst == nil {
		dst = append(make([]byte, 0, r.Size()+len(r.Content)+len(r.Others)+256), '{')
	}
	dst = append(dst, `"content":`...)
	if r.Content == nil {
		dst = append(dst, "null"...)
	} else {
		dst = append(dst, '[')
		for i, item := range r.Content {
			if i > 0 {
				dst = append(dst, ',')
			}
			if len(item) == 0 {
				item = ContentBlock("null")
			}
			dst = append(dst, item...)
		}
		dst = append(dst, ']')
	}
	if len(r.StructuredContent) > 0 {
		dst = append(append(dst, `,"structuredContent":`...), r.StructuredContent...)
	}
	if r.IsError {
		dst = append(dst, `,"isError":true`...)
	}
	if len(r.Meta) > 0 {
		var meta bytes.Buffer
		to := json.NewEncoder(&meta)
		to.SetEscapeHTML(false)
		if err := to.Encode(r.Meta); err != nil {
			return nil, err
		}
		dst = append(append(dst, `,"_meta":`...), meta.Bytes()...)
	}
	if others := bytes.TrimSpace(r.Others); len(others) > len("{}") {
		dst = append(append(dst, ','), others[1:len(others)-1]...)
	}
	return append(dst, '}'), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *CallToolResult) UnmarshalJSON(encoded []byte) error {
	if string(encoded) == "null" {
		return nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(encoded, &members); err != nil {
		return err
	}
	var read struct {
		Content           []ContentBlock             `json:"content"`
		StructuredContent json.RawMessage            `json:"structuredContent"`
		IsError           bool                       `json:"isError"`
		Meta              map[string]json.RawMessage `json:"_meta"`
	}
	if err := json.Unmarshal(encoded, &read); err != nil {
		return err
	}
	r.Content, r.StructuredContent, r.IsError = read.Content, read.StructuredContent, read.IsError
	r.Meta, r.Others = RawMeta(read.Meta), nil
	for _, known := range []string{"content", "structuredContent", "isError", "_meta"} {
		delete(members, known)
	}
	if len(members) > 0 {
		r.Others = encode(members)
	}
	return nil
}

// RawMeta makes the _meta of a result from encoded values.
func RawMeta(encoded map[string]json.RawMessage) map[string]any {
	if encoded == nil {
		return nil
	}
	meta := map[string]any{}
	for key, value := range encoded {
		meta[key] = value
	}
	return meta
}

// MarshalJSON implements json.Marshaler.
func (r CompleteResult) MarshalJSON() ([]byte, error) {
	begin := append([]byte(`{"resultType":`), encode(r.ResultType)...)
	return r.encode(append(begin, ','))
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *CompleteResult) UnmarshalJSON(encoded []byte) error {
	var typed struct {
		ResultType ResultType `json:"resultType"`
	}
	if err := json.Unmarshal(encoded, &typed); err != nil {
		return err
	}
	r.ResultType = typed.ResultType
	return json.Unmarshal(encoded, &r.CallToolResult)
}
