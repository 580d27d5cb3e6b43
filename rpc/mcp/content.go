package mcp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
)

// ContentBlock is one content item as it is on the wire: a JSON object with a "type". It is encoded once,
// when it is made, and from then on only copied (into the log, a partial, a result), even if runnel does not
// know its type.
type ContentBlock = json.RawMessage

// TextContent is a content item of type "text".
type TextContent struct {
	Type string         `json:"type"`
	Text string         `json:"text"`
	Meta map[string]any `json:"_meta,omitempty"`
}

// Text makes a text item.
func Text(s string) ContentBlock { return encode(TextContent{Type: "text", Text: s}) }

// imageContent is a content item of type "image" or "audio".
type imageContent struct {
	Type     string `json:"type"`
	Data     string `json:"data"` // in base64
	MimeType string `json:"mimeType"`
}

// Image makes an image item; mimeType is its media type, for example "image/png".
func Image(data []byte, mimeType string) ContentBlock {
	return encode(imageContent{Type: "image", Data: base64.StdEncoding.EncodeToString(data),
		MimeType: mimeType})
}

// Audio makes an audio item, which versions before 2025-03-26 do not know; mimeType is as that of Image.
func Audio(data []byte, mimeType string) ContentBlock {
	return encode(imageContent{Type: "audio", Data: base64.StdEncoding.EncodeToString(data),
		MimeType: mimeType})
}

// Received returns an item from another server as it can be passed on, and reports false if it is not an
// object. The item loses its seqNr: each sender gives that number itself (SEP-1905, "Sequence Number
// Requirements").
func Received(c ContentBlock) (ContentBlock, bool) {
	if len(c) == 0 || c[0] != '{' {
		return nil, false
	}
	if !bytes.Contains(c, []byte("seqNr")) && !bytes.Contains(c, []byte(`\u00`)) { // an escape may spell it
		return c, true
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(c, &members) != nil {
		return nil, false
	}
	if _, numbered := members["seqNr"]; !numbered {
		return c, true
	}
	delete(members, "seqNr")
	return encode(members), true
}

func encode(v any) ContentBlock {
	b, err := json.Marshal(v)
	if err != nil {
		panic("internal error: encoding content: " + err.Error())
	}
	return b
}

// IsEnd reports whether an item is the line that says how a command ended.
func IsEnd(c ContentBlock) bool {
	var t TextContent
	return json.Unmarshal(c, &t) == nil && t.Meta[MetaStream] == StreamEnd
}

// IsAboutFiles reports whether an item says what became of the files that a command has made.
func IsAboutFiles(c ContentBlock) bool {
	var t TextContent
	return json.Unmarshal(c, &t) == nil && t.Meta[MetaStream] == StreamFiles
}

// TextOf returns the text of a text item. It reports false for any other item.
func TextOf(c ContentBlock) (string, bool) {
	var t TextContent
	err := json.Unmarshal(c, &t)
	return t.Text, err == nil && t.Type == "text"
}

// Bounds of a line, in bytes. Clients and routers read lines with limits, the lowest of them 1 MiB; every
// bound of content derives from that.
const (
	// MaxLine is the length that every written line stays below.
	MaxLine = 1 << 20
	// MaxContent is how much JSON content a line may have. The rest is for ids, the task and its status, and
	// other _meta.
	MaxContent = MaxLine - 32<<10
	// MaxPage is how much content an answer may have if the client asks for the rest.
	MaxPage = MaxLine / 2
	// MaxListPage is roughly how much of a list one page has.
	MaxListPage = MaxPage / 2
	// MaxPassed is how long a line may be that passes on what another server has sent as one line: the client
	// would read that line, too, from the server. The official TypeScript client reads 10 MiB.
	MaxPassed = 8 << 20
	// MaxText is how many bytes of any text fit: a control character takes six bytes in JSON.
	MaxText = MaxLine / 8
)

// Command reports whether the result is that of a command, and returns its exit code; 0 if a signal ended it.
func (r *CallToolResult) Command() (exitCode int, is bool) {
	var command struct{ ExitCode int }
	meta, _ := json.Marshal(r.Meta[MetaCommand])
	is = r.Meta[MetaCommand] != nil && json.Unmarshal(meta, &command) == nil
	return command.ExitCode, is
}

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
