package secrets

import (
	"bytes"
	"encoding/base64"
	"encoding/json"

	"runnel/rpc/rawjson"
)

// minBinary is the least length of a text that may count as base64, in bytes: a shorter one may be a word.
const minBinary = 64

// JSON returns a JSON text with the secrets in its strings, names and numbers masked, or the text itself if
// there are none. If it is not valid JSON, it is masked as text.
func (s *Set) JSON(value json.RawMessage) json.RawMessage {
	switch {
	case s == nil || len(value) == 0:
		return value
	case !json.Valid(value):
		return s.all.text(value)
	}
	return rawjson.Rewrite(value, s.inJSON)
}

// inJSON masks one string of a JSON value. In an image or a file in base64 only values count, since a pattern
// may match any such text. One with a secret value is replaced by the base64 of the mask, because hosts
// refuse a message with invalid base64.
func (s *Set) inJSON(name, text string) string {
	if name != "data" && name != "blob" || len(text) < minBinary {
		return s.String(text)
	}
	if _, err := base64.StdEncoding.DecodeString(text); err != nil {
		return s.String(text)
	}
	if s.values == nil || len(text) == len(s.values.text([]byte(text))) {
		return text
	}
	return base64.StdEncoding.EncodeToString([]byte(mask))
}

// Holds reports whether a JSON text contains a secret. Use it to keep a text only if it has none.
func (s *Set) Holds(value json.RawMessage) bool { return !bytes.Equal(s.JSON(value), value) }
