package mcp

import (
	"bytes"
	"encoding/json"
)

// A result may come from another server, whose members and numbers pass as they are. So it is encoded and
// decoded by hand: encoding/json would drop a member that no field has, and round a number of _meta above
// 2^53.

// MarshalJSON implements json.Marshaler.
func (r CallToolResult) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	err := r.WriteJSON(&b)
	return b.Bytes(), err
}

// WriteJSON appends the encoded result. What is already JSON is copied as it is, once: encoding/json would
// check and copy all of it again, three times the work of everything else on a large result.
func (r CallToolResult) WriteJSON(to *bytes.Buffer) error {
	to.WriteByte('{')
	return r.writeMembers(to)
}

// writeMembers appends the members of the result, and the end of the object.
func (r *CallToolResult) writeMembers(to *bytes.Buffer) error {
	to.Grow(r.Size() + len(r.Content) + 256)
	to.WriteString(`"content":`)
	if r.Content == nil {
		to.WriteString("null")
	} else {
		to.WriteByte('[')
		for i, item := range r.Content {
			if i > 0 {
				to.WriteByte(',')
			}
			if len(item) == 0 {
				item = ContentBlock("null")
			}
			to.Write(item)
		}
		to.WriteByte(']')
	}
	if len(r.StructuredContent) > 0 {
		to.WriteString(`,"structuredContent":`)
		to.Write(r.StructuredContent)
	}
	if r.IsError {
		to.WriteString(`,"isError":true`)
	}
	if len(r.Meta) > 0 {
		to.WriteString(`,"_meta":`)
		meta := json.NewEncoder(to)
		meta.SetEscapeHTML(false)
		if err := meta.Encode(r.Meta); err != nil {
			return err
		}
		to.Truncate(to.Len() - 1) // Encode ends with a newline
	}
	if others := bytes.TrimSpace(r.Others); len(others) > len("{}") {
		to.WriteByte(',')
		to.Write(others[1 : len(others)-1])
	}
	to.WriteByte('}')
	return nil
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
	r.Content = read.Content
	r.StructuredContent = read.StructuredContent
	r.IsError = read.IsError
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
	var b bytes.Buffer
	err := r.WriteJSON(&b)
	return b.Bytes(), err
}

// WriteJSON is that of the result, which begins with the resultType.
func (r CompleteResult) WriteJSON(to *bytes.Buffer) error {
	to.WriteString(`{"resultType":`)
	to.Write(encode(r.ResultType))
	to.WriteByte(',')
	return r.writeMembers(to)
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
