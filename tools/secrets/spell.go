package secrets

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// spellings are the texts in which a value may stand: as it is, in a JSON string, in a URL, in base64; and each line of several, which
// programs print one by one. Hexadecimal, hashes and any other encoding are not among them.
func spellings(value string) []string {
	list := []string{value}
	for line := range strings.Lines(value) {
		list = append(list, strings.TrimRight(line, "\r\n"))
	}
	for _, v := range slices.Clone(list) {
		list = append(list, inJSON(v, true), inJSON(v, false), strings.ReplaceAll(inJSON(v, false), "/", `\/`), url.QueryEscape(v), url.PathEscape(v))
	}
	list = append(list, inBase64(value)...)
	for i, s := range list {
		list[i] = strings.Join(strings.Split(s, "\x00"), "") // which no variable has, nor a log's text
		list[i] = string([]rune(list[i]))                    // as a log has bytes that are not UTF-8
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// inJSON is a text as it stands in a JSON string, with the characters of HTML escaped or not.
func inJSON(v string, html bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(html)
	_ = e.Encode(v) // a string always can be
	return strings.Trim(strings.TrimSpace(b.String()), `"`)
}

// inBase64 are the characters that a value makes in base64, in both alphabets, after zero, one and two other bytes: those in which other
// bytes have a part are left out.
func inBase64(value string) (list []string) {
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		for before := range 3 {
			text := encoding.EncodeToString(append(make([]byte, before), value...))
			list = append(list, text[(before*8+5)/6:(before+len(value))*8/6])
		}
	}
	return list
}
