package artifacts_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"runnel/tools/toolstest"
)

// wide returns a text in UTF-16, little or big endian.
func wide(text string, big bool) string {
	var out strings.Builder
	for i := range len(text) {
		if big {
			out.WriteString("\x00" + text[i:i+1])
		} else {
			out.WriteString(text[i:i+1] + "\x00")
		}
	}
	return out.String()
}

// Secrets are masked in text of any kind, and nothing else of a file changes.
func TestSecretsInFiles(t *testing.T) {
	const secret = "s3cret-value"
	latin := "r\xe9sum\xe9 na\xefve " + strings.Repeat("caf\xe9 ", 9000)
	numbers := strings.Repeat("\x01\x00\x02\x00\x80\x07", 100) // not a text in UTF-16
	cases := map[string]struct{ content, want, kind string }{
		"controls": {"progress a\bb " + secret + "\x07\n", "progress a\bb ***\x07\n",
			"application/octet-stream"},
		"magic":     {"MZ password " + secret + "\n", "MZ password ***\n", ""}, // programs begin so
		"latin":     {latin + secret, latin + "***", ""},
		"untouched": {latin, latin, ""},
		"mark":      {"\xef\xbb\xbfa " + secret + "\n", "\xef\xbb\xbfa ***\n", "text/plain; charset=utf-8"},
		"wide": {"\xff\xfe" + wide("a "+secret+"\n", false), "\xff\xfe" + wide("a ***\n", false),
			"text/plain; charset=utf-16le"},
		"little":  {wide("a "+secret+"\n", false), wide("a ***\n", false), ""},
		"big":     {wide("a "+secret+"\n", true), wide("a ***\n", true), ""},
		"numbers": {numbers, numbers, "application/octet-stream"},
	}
	dir, runner := t.TempDir(), newRunner(t)
	m := &maker{dir: dir, rules: rules(t, "'*'"), make: func() {
		for name, c := range cases {
			write(t, dir, name, []byte(c.content))
		}
	}}
	for range 2 {
		list := items(t, toolstest.CallBy(t, runner, m, nil).Content)
		if len(list) != len(cases) {
			t.Fatal(summary(list))
		}
		for _, i := range list {
			c := cases[i.Name]
			if got := stored(t, runner, m.id, i.Name); got != c.want {
				t.Errorf("%s: %.80q, want %.80q", i.Name, got, c.want)
			}
			if c.kind != "" && i.MimeType != c.kind {
				t.Errorf("%s: %q, want %q", i.Name, i.MimeType, c.kind)
			}
			_ = os.Remove(filepath.Join(dir, i.Name))
		}
	}
}

// Names that masks make alike stay apart, so that each file can be read.
func TestSecretsInNames(t *testing.T) {
	dir, runner := t.TempDir(), newRunner(t)
	m := &maker{dir: dir, rules: rules(t, "'**'"), make: func() {
		for _, name := range []string{"***.txt", "s3cret-value.txt", "a/*** (2)", "a/s3cret-value", "a/***"} {
			write(t, dir, name, []byte("of "+strings.ReplaceAll(name, "s3cret-value", "4")))
		}
	}}
	for range 2 {
		got := map[string]string{}
		for _, i := range items(t, toolstest.CallBy(t, runner, m, nil).Content) {
			got[i.Name] = stored(t, runner, m.id, i.Name)
		}
		want := map[string]string{"***.txt": "of ***.txt", "*** (2).txt": "of 4.txt", "a/***": "of a/***",
			"a/*** (2)": "of a/*** (2)", "a/*** (3)": "of a/4"}
		if !maps.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		for name := range want {
			_ = os.Remove(filepath.Join(dir, name))
		}
		_ = os.Remove(filepath.Join(dir, "s3cret-value.txt"))
		_ = os.Remove(filepath.Join(dir, "a/s3cret-value"))
	}
}
