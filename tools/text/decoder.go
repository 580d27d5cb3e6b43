package text

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"runnel/internal/shorten"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// AutoEncoding is the encoding of bytes that says itself what it is; see [NewDecoder].
const AutoEncoding = "auto"

// Decoder turns bytes that come in pieces into valid UTF-8. A character that is split between two pieces
// stays whole. The zero value reads UTF-8, and leaves a byte order mark in the text.
type Decoder struct {
	auto    bool                  // the first bytes may say what they are
	first   encoding.Encoding     // of text whose first bytes do not; nil = UTF-8
	other   encoding.Encoding     // of text that turns out not to be UTF-8; nil = it has damaged characters
	charset transform.Transformer // into UTF-8; nil = the bytes are UTF-8

	rest  []byte // the beginning of a character whose end has not come yet
	whole []byte // rest and a piece
	text  []byte // what charset has made of them
}

// NewDecoder returns a Decoder for an encoding, by a name of the WHATWG Encoding Standard (utf-16le, gbk,
// shift_jis, windows-1252) or as a code page (ibm850, cp850). A byte order mark at the beginning wins, and is
// not part of the text, except with utf-8, which takes the bytes as they are.
//
// With "auto", text without such a mark is UTF-16 if its first two characters are ASCII in UTF-16, as many
// programs of Windows write it, otherwise UTF-8. From the first piece on that is not, it is in the code page
// of Windows, if that is not 0.
func NewDecoder(name string, codePage int) (*Decoder, error) {
	switch name {
	case AutoEncoding:
		d := &Decoder{auto: true}
		d.other = findCodePage(codePage)
		return d, nil
	case "utf-8":
		return &Decoder{}, nil
	}
	first, err := findEncoding(name)
	return &Decoder{auto: true, first: first}, err
}

// findEncoding returns an encoding by its name, nil for UTF-8.
func findEncoding(name string) (encoding.Encoding, error) {
	found, err := htmlindex.Get(name)
	if err != nil {
		if n, wrong := strconv.Atoi(strings.TrimPrefix(strings.TrimPrefix(name, "cp"),
			"ibm")); wrong == nil && findCodePage(n) != nil {
			return findCodePage(n), nil
		}
	}
	if err != nil || found == encoding.Replacement {
		return nil, fmt.Errorf("%q is not an encoding", name)
	}
	if found == unicode.UTF8 {
		return nil, nil
	}
	return found, nil
}

// findCodePage returns the encoding of a code page of Windows, nil for that of UTF-8 and for an unknown one.
func findCodePage(n int) encoding.Encoding {
	switch n {
	case 437:
		return charmap.CodePage437
	case 850:
		return charmap.CodePage850
	case 852:
		return charmap.CodePage852
	case 855:
		return charmap.CodePage855
	case 858:
		return charmap.CodePage858
	case 860:
		return charmap.CodePage860
	case 862:
		return charmap.CodePage862
	case 863:
		return charmap.CodePage863
	case 865:
		return charmap.CodePage865
	case 932:
		return japanese.ShiftJIS
	case 936:
		return simplifiedchinese.GBK
	case 950:
		return traditionalchinese.Big5
	}
	found, _ := htmlindex.Get(fmt.Sprintf("windows-%d", n)) // 874, 949, 1250 to 1258
	if found == nil {
		found, _ = htmlindex.Get(fmt.Sprintf("ibm%d", n)) // 866
	}
	return found
}

var byteOrderMarks = []struct {
	mark    string
	charset encoding.Encoding // nil = UTF-8
}{
	{"\xef\xbb\xbf", nil},
	{"\xff\xfe", unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)},
	{"\xfe\xff", unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)},
}

// Decode returns p as text, valid until the next call. The beginning of a character at the end of p waits for
// its rest.
func (d *Decoder) Decode(p []byte) []byte {
	if len(d.rest) > 0 {
		d.whole = append(append(d.whole[:0], d.rest...), p...)
		p = d.whole
	}
	if d.auto {
		n, known := d.detect(p)
		if !known {
			d.rest = append(d.rest[:0], p...)
			return nil
		}
		p = p[n:]
	}
	return d.decode(p, false)
}

// Flush ends the text and returns what waited for its rest.
func (d *Decoder) Flush() []byte {
	if d.auto {
		d.use(cmp.Or(d.first, d.other))
	}
	return d.decode(slices.Clone(d.rest), true)
}

// detect finds out the encoding by the first bytes, and returns the length of their byte order mark. known is
// false if more bytes are needed: only for bytes that may be the beginning of a mark, or of UTF-16.
func (d *Decoder) detect(p []byte) (mark int, known bool) {
	for _, m := range byteOrderMarks {
		if bytes.HasPrefix(p, []byte(m.mark)) {
			d.use(m.charset)
			return len(m.mark), true
		}
		if strings.HasPrefix(m.mark, string(p)) {
			return 0, false
		}
	}
	switch {
	case d.first != nil:
		d.use(d.first)
	case len(p) >= 2 && p[0]-1 < utf8.RuneSelf-1 && p[1] == 0: // no text in UTF-8 has a NUL
		if len(p) < 4 {
			return 0, false
		}
		if p[3] == 0 {
			d.use(unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM))
		}
	}
	d.auto = false
	return 0, true
}

// use sets the encoding of all that follows; nil = UTF-8.
func (d *Decoder) use(charset encoding.Encoding) {
	d.auto = false
	d.other = nil
	if charset != nil {
		d.charset = charset.NewDecoder()
	}
}

// decode returns p as text. At the end, nothing waits for its rest.
func (d *Decoder) decode(p []byte, atEnd bool) []byte {
	if d.charset == nil {
		cut := shorten.Whole(p)
		if atEnd {
			cut = len(p)
		}
		if d.other == nil || utf8.Valid(p[:cut]) {
			d.rest = append(d.rest[:0], p[cut:]...)
			return Valid(p[:cut])
		}
		d.use(d.other)
	}
	for d.text = d.text[:0]; ; {
		d.text = slices.Grow(d.text, 2*len(p)+2*utf8.UTFMax)
		n, read, err := d.charset.Transform(d.text[len(d.text):cap(d.text)], p, atEnd)
		d.text = d.text[:len(d.text)+n]
		p = p[read:]
		if err != transform.ErrShortDst {
			d.rest = append(d.rest[:0], p...)
			return d.text
		}
	}
}
