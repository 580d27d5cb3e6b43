package artifacts

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/gabriel-vasile/mimetype"

	"runnel/tools/secrets"
	"runnel/tools/text"
)

// headBytes is how much of a file tells its type: what the library reads at most.
const headBytes = 3072

// detect returns the type of a file by its content, and a reader for all of it. The library is mimetype and
// not net/http, which knows neither SVG nor JSON, nor that both are text; h2non/filetype knows no text at all.
func detect(r io.Reader) (kind string, isText bool, all io.Reader, err error) {
	head := make([]byte, headBytes)
	n, err := io.ReadFull(r, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", false, nil, err
	}
	found := mimetype.Detect(head[:n])
	for m := found; m != nil; m = m.Parent() {
		isText = isText || m.Is("text/plain")
	}
	return found.String(), isText, io.MultiReader(bytes.NewReader(head[:n]), r), nil
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

// masked reads a text with its secrets masked. UTF-16 becomes UTF-8, since no secret would be found in it.
type masked struct {
	from    io.Reader
	decoder *text.Decoder
	stream  *secrets.Stream
	piece   []byte
	ready   []byte
	ended   error
}

// mask returns a reader for a text without the secrets of a set. Without a set the text stays as it is.
func mask(from io.Reader, s *secrets.Set) io.Reader {
	if s == nil {
		return from
	}
	decoder, err := text.NewDecoder(text.AutoEncoding, 0)
	if err != nil {
		panic("internal error: " + err.Error())
	}
	return &masked{from: from, decoder: decoder, stream: s.Stream(), piece: make([]byte, 32<<10)}
}

// Read implements io.Reader.
func (m *masked) Read(p []byte) (int, error) {
	for len(m.ready) == 0 {
		if m.ended != nil {
			return 0, m.ended
		}
		var n int
		n, m.ended = m.from.Read(m.piece)
		m.ready = bytes.Clone(m.stream.Write(m.decoder.Decode(m.piece[:n])))
		if m.ended != nil {
			m.ready = append(m.ready, m.stream.Write(m.decoder.Flush())...)
			m.ready = append(m.ready, m.stream.Flush()...)
		}
	}
	n := copy(p, m.ready)
	m.ready = m.ready[n:]
	return n, nil
}
