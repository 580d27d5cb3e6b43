package secrets

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// spellings returns the forms in which a value may appear: as it is, in a JSON string, in a URL, in base64, and each line of a value of several
// lines, which programs print one by one. Other encodings, such as hexadecimal, are not covered.
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
		list[i] = strings.ReplaceAll(s, "\x00", "") // no variable has a NUL, and no text of a log
		list[i] = string([]rune(list[i]))           // a log has U+FFFD for a byte that is not UTF-8
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// inJSON returns a text as written in a JSON string; html: with <, > and & escaped.
func inJSON(v string, html bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(html)
	_ = e.Encode(v) // never fails for a string
	return strings.Trim(strings.TrimSpace(b.String()), `"`)
}

// inBase64 returns the characters of a value in base64, in both alphabets, if zero, one or two other bytes stand before it. It leaves out the
// characters that also depend on other bytes.
func inBase64(value string) (list []string) {
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		for before := range 3 {
			text := encoding.EncodeToString(append(make([]byte, before), value...))
			list = append(list, text[(before*8+5)/6:(before+len(value))*8/6])
		}
	}
	return list
}
