package term

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kballard/go-shellquote"
	"github.com/rs/zerolog"

	"runnel/rpc/mcp"
	"runnel/tools/text"
)

// Printable makes a stranger's words harmless on a terminal: see text.Printable. Only a tool's own output
// reaches a terminal without it or PrintableLines.
func Printable(s string) string { return text.Printable(s) }

// PrintableLines is Printable for text of several lines.
func PrintableLines(s string) string { return text.PrintableLines(s) }

// Plain makes a line of a tool's output harmless: without the escape sequences of a terminal, then as
// Printable does.
func Plain(s string) string { return Printable(string(text.StripANSI([]byte(s)))) }

// LogWriter writes the lines of a zerolog log as text for a person. The stack of a panic is shown below its
// line.
func LogWriter(w io.Writer, colour bool) io.Writer {
	return zerolog.ConsoleWriter{Out: w, NoColor: !colour, FieldsExclude: []string{"stack"},
		FormatExtra: func(fields map[string]any, line *bytes.Buffer) error {
			if stack, ok := fields["stack"].(string); ok {
				line.WriteString("\n" + PrintableLines(strings.TrimRight(stack, "\n")))
			}
			return nil
		}}
}

// Output makes a tool's output fit for its reader. On a Terminal, colours pass, and no other control sequence
// or character that could move the cursor, write to the clipboard or ask the terminal something; elsewhere,
// as in a pipe, no escape sequence passes.
type Output struct {
	Terminal bool
	text.Stripper
}

// NewOutput makes the Output of a stream. NO_COLOR and TERM=dumb turn colours off.
func NewOutput(stream any, getenv func(name string) string) *Output {
	o := &Output{Terminal: IsTerminal(stream)}
	if o.Terminal && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb" {
		o.Colors = text.TerminalColor
	}
	return o
}

// Clean returns what of a piece of output is shown. A sequence may be split between two pieces.
func (o *Output) Clean(piece string) string {
	piece = string(o.Strip([]byte(piece)))
	if !o.Terminal {
		return piece
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && !strings.ContainsRune("\n\r\t\x1b", r) || r == utf8.RuneError ||
			unicode.In(r, unicode.Bidi_Control) {
			return -1
		}
		return r
	}, piece)
}

// endOfColor is the end of a sequence that Output lets pass.
const endOfColor = 'm'

// columns returns how many columns a character takes at most.
func columns(r rune) int {
	// Everything but punctuation, arrows, lines and the spinner.
	if r >= 0x1100 && (r < 0x2000 || r >= 0x2e80) {
		return 2
	}
	return 1
}

// Columns returns how many columns a text takes. A character that may take two counts as two, and colours
// that an Output let pass take none.
func Columns(s string) (n int) {
	color := false
	for _, r := range s {
		if color = color || r == '\x1b'; !color {
			n += columns(r)
		}
		color = color && r != endOfColor
	}
	return n
}

// Clip cuts text to some Columns.
func Clip(s string, most int) string {
	n, color := 0, false
	for at, r := range s {
		if color = color || r == '\x1b'; color {
			color = r != endOfColor
		} else if n += columns(r); n > most {
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

// Item returns a content item as a terminal shows it: its text, or a line about it. It belongs on stderr if a
// command wrote it there, or if it says how the command ended.
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
			about = append(about, fmt.Sprintf("%d bytes",
				base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(m.Data, "=")))))
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

// Quote writes words as a part of a command that people and models may paste into a shell, also if a stranger
// chose them: a directory may be named x$(rm -rf y). Characters that a terminal obeys become blanks.
func Quote(words ...string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+@:,=[]"
	quoted := make([]string, len(words))
	for n, word := range words {
		switch word = Printable(word); {
		case word != "" && strings.Trim(word, plain) == "":
		case runtime.GOOS != "windows" && word != "" && !strings.Contains(word, "'"):
			word = "'" + word + "'" // easier to read than the backslashes of shellquote
		case runtime.GOOS != "windows":
			word = shellquote.Join(word)
		case strings.Trim(word, plain+`\ ()~`) == "" && word != "":
			word = `"` + word + `"` // cmd.exe and PowerShell take it as it is
		default:
			word = "'" + strings.ReplaceAll(word, "'", "''") + "'" // PowerShell expands nothing in it
		}
		quoted[n] = word
	}
	return strings.Join(quoted, " ")
}
