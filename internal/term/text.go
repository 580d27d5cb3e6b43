package term

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"runnel/rpc/mcp"
	"runnel/tools/text"
)

// Printable makes a stranger's words harmless on a terminal: see text.Printable. Only a tool's own output reaches a terminal without it or
// PrintableLines.
func Printable(s string) string { return text.Printable(s) }

// PrintableLines is Printable for text of several lines.
func PrintableLines(s string) string { return text.PrintableLines(s) }

// columns returns how many columns a character takes at most.
func columns(r rune) int {
	if r >= 0x1100 && (r < 0x2000 || r >= 0x2e80) { // everything but punctuation, arrows, lines and the spinner
		return 2
	}
	return 1
}

// Columns returns how many columns a text takes. A character that may take two counts as two.
func Columns(s string) (n int) {
	for _, r := range s {
		n += columns(r)
	}
	return n
}

// Clip cuts text to some Columns.
func Clip(s string, most int) string {
	n := 0
	for at, r := range s {
		if n += columns(r); n > most {
			return s[:at]
		}
	}
	return s
}

// Shorten returns text as one short line, for a message that quotes it.
func Shorten(s string) string {
	const most = 60
	s = strings.ReplaceAll(s, "\n", " ")
	if Clip(s, most) == s {
		return s
	}
	return Clip(s, most-1) + "…"
}

// Item returns a content item as a terminal shows it: its text, or a line about it. It belongs on stderr if a command wrote it there,
// or if it says how the command ended.
func Item(item json.RawMessage) (text string, isText, stderr bool) {
	var m struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		MimeType string `json:"mimeType"`
		URI      string `json:"uri"`
		Data     string `json:"data"`
		Meta     struct {
			Stream string `json:"runnel/stream"`
		} `json:"_meta"`
		Resource struct {
			URI  string `json:"uri"`
			Text string `json:"text"`
		} `json:"resource"`
	}
	_ = json.Unmarshal(item, &m) // members of a wrong type read as absent
	isText = true
	switch {
	case m.Type == "text":
		text = m.Text
	case m.Resource.Text != "":
		text = m.Resource.Text
	default:
		isText = false
		about := []string{m.Type, m.MimeType, m.URI, m.Resource.URI}
		if m.Data != "" {
			about = append(about, fmt.Sprintf("%d bytes", base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(m.Data, "=")))))
		}
		words := strings.Fields(Printable(strings.Join(about, " ")))
		text = fmt.Sprintf("[%s]\n", strings.Join(words, " "))
	}
	if m.Meta.Stream == mcp.StreamEnd {
		text = strings.TrimPrefix(text, "\n") + "\n"
	}
	return text, isText, m.Meta.Stream == mcp.StreamStderr || m.Meta.Stream == mcp.StreamEnd
}

// Count writes a number of things in a sentence: "1 tool", "2 tools".
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
