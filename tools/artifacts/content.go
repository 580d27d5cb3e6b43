package artifacts

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/gabriel-vasile/mimetype"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"
	"golang.org/x/text/transform"

	"runnel/internal/shorten"
	"runnel/tools/secrets"
)

// headBytes is how much of a file tells its type: what the library reads at most.
const headBytes = 3072

// content is the content of a file, and what its beginning says of it.
type content struct {
	io.Reader
	kind   string // its type
	isText bool
	head   []byte
}

// detect finds out what a file is. The library is mimetype and not net/http, which knows neither SVG nor
// JSON, nor that both are text; h2non/filetype knows no text at all.
func detect(r io.Reader) (*content, error) {
	head := make([]byte, headBytes)
	n, err := io.ReadFull(r, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	head = head[:n]
	found := mimetype.Detect(head)
	c := &content{Reader: io.MultiReader(bytes.NewReader(head), r), kind: found.String(), head: head}
	for m := found; m != nil; m = m.Parent() {
		c.isText = c.isText || m.Is("text/plain")
	}
	return c, nil
}

// isPicture reports whether models see pictures of a type: the four that their interfaces have in common.
func isPicture(kind string) bool {
	switch kind {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return true
	}
	return false
}

func isSound(kind string) bool { return strings.HasPrefix(kind, "audio/") }

// mayBeText reports whether secrets are masked. A control byte makes a text application/octet-stream for the
// library, and some words make it another thing ("%PDF-", "MZ"); but nearly all that is no text has a NUL in
// its beginning, too.
func (c *content) mayBeText() bool {
	return c.isText || c.kind == "application/octet-stream" || bytes.IndexByte(c.head, 0) < 0
}

// wideCharsets are the encodings in which no secret would be found, by how a text begins.
var wideCharsets = []struct {
	mark    string
	charset encoding.Encoding
}{
	{"\xff\xfe\x00\x00", utf32.UTF32(utf32.LittleEndian, utf32.IgnoreBOM)},
	{"\x00\x00\xfe\xff", utf32.UTF32(utf32.BigEndian, utf32.IgnoreBOM)},
	{"\xff\xfe", unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)},
	{"\xfe\xff", unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)},
}

// findWide returns the encoding of a text in UTF-16 or UTF-32, nil for any other file. Without a mark, UTF-16
// is what begins with two characters of ASCII and is readable.
func findWide(head []byte) encoding.Encoding {
	for _, w := range wideCharsets {
		if bytes.HasPrefix(head, []byte(w.mark)) {
			return w.charset
		}
	}
	if len(head) < 4 {
		return nil
	}
	little := head[0] != 0 && head[1] == 0 && head[2] != 0 && head[3] == 0
	big := head[0] == 0 && head[1] != 0 && head[2] == 0 && head[3] != 0
	if !little && !big {
		return nil
	}
	order := unicode.BigEndian
	if little {
		order = unicode.LittleEndian
	}
	charset := unicode.UTF16(order, unicode.IgnoreBOM)
	text, err := charset.NewDecoder().Bytes(head)
	isBinary := func(r rune) bool {
		return !strconv.IsPrint(r) &&
			!strings.ContainsRune("\a\b\t\n\v\f\r\x1b", r)
	}
	if err != nil || bytes.ContainsFunc(text, isBinary) {
		return nil
	}
	return charset
}

// mask returns a reader for a file without the secrets of a set, if it may be text. All other bytes stay as
// they are, whatever their encoding.
func mask(c *content, s *secrets.Set) io.Reader {
	if s == nil || !c.mayBeText() {
		return c
	}
	var from io.Reader = c
	wide := findWide(c.head)
	if wide != nil {
		from = wide.NewDecoder().Reader(from)
	}
	from = &masked{from: from, stream: s.Stream(), piece: make([]byte, 32<<10)}
	if wide != nil {
		from = transform.NewReader(from, wide.NewEncoder())
	}
	return from
}

// masked reads a file with its secrets masked.
type masked struct {
	from   io.Reader
	stream *secrets.Stream
	piece  []byte
	cut    int // bytes at the beginning of piece: of a character that was cut off
	ready  []byte
	ended  error
}

// Read implements io.Reader.
func (m *masked) Read(p []byte) (int, error) {
	for len(m.ready) == 0 {
		if m.ended != nil {
			return 0, m.ended
		}
		var n int
		n, m.ended = m.from.Read(m.piece[m.cut:])
		n += m.cut
		whole := n
		if m.ended == nil {
			whole = shorten.Whole(m.piece[:n])
		}
		m.ready = bytes.Clone(m.stream.Write(m.piece[:whole]))
		m.cut = copy(m.piece, m.piece[whole:n])
		if m.ended != nil {
			m.ready = append(m.ready, m.stream.Flush()...)
		}
	}
	n := copy(p, m.ready)
	m.ready = m.ready[n:]
	return n, nil
}
