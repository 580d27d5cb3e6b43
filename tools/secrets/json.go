package secrets

import (
	"bytes"
	"encoding/base64"
	"encoding/json"

	"runnel/rpc/rawjson"
)

// minBinary is the length from which on a text in base64 counts as binary, in bytes: a shorter one may be a word.
const minBinary = 64

// JSON returns an encoded JSON value with the secrets in its strings, its names and its numbers masked: the value itself if there are none.
// A value that is not JSON is masked as text.
func (s *Set) JSON(value json.RawMessage) json.RawMessage {
	switch {
	case s == nil || len(value) == 0:
		return value
	case !json.Valid(value):
		return s.text(value)
	}
	return rawjson.Rewrite(value, s.inJSON)
}

// inJSON masks one text of a JSON value. An image or a file in base64 is not looked through with patterns, which any such text may match; one
// that holds a value becomes a file that says no more than Mask: hosts refuse a message whose base64 cannot be read.
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

// Holds reports whether encoded JSON has a secret in it.
func (s *Set) Holds(value json.RawMessage) bool { return !bytes.Equal(s.JSON(value), value) }
