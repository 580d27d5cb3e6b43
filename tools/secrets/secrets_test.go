package secrets

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp/syntax"
	"strings"
	"testing"
	"unicode/utf8"
)

func mustNew(t testing.TB, values, patterns []string) *Set {
	t.Helper()
	s, err := New(values, patterns)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestText(t *testing.T) {
	s := mustNew(t, []string{"hunter2hunter2", "abcdef", "defghi", "line one\nline two\n", "пароль"},
		[]string{`AKIA[A-Z0-9]{4}`, `password=\S+`, `\bpin:\d{4}\b`, `(?i)bearer [a-z]{6,}`,
			`(?m)^key .{0,20}$`})
	for text, want := range map[string]string{
		"":                   "",
		"nothing here":       "nothing here",
		"hunter2hunter2":     "***",
		"x hunter2hunter2 y": "x *** y",
		// It stands there twice, from the first on and from the second.
		"hunter2hunter2hunter2":             "***",
		"hunter2 hunter2":                   "hunter2 hunter2",
		"abcdefghi":                         "***", // what two share belongs to both
		"xabcdefx defghi.":                  "x***x ***.",
		"abcdefabcdef":                      "***", // one run, one mask
		"AKIAABCDEFG":                       "***EFG",
		"AKIAABC":                           "AKIAABC",
		"password=a b":                      "*** b",
		"password=":                         "password=",
		"pin:1234 pin:12345 xpin:1234":      "*** pin:12345 xpin:1234",
		"pin:1234":                          "***",
		"Authorization: BEARER abcdefgh, x": "Authorization: ***, x",
		"key a\nno key b\nkey c":            "***\nno key b\n***",
		"один пароль два":                   "один *** два",
		"  line one  \n> line two":          "  ***  \n> ***",
	} {
		if got := s.String(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestSpellings(t *testing.T) {
	const value = `p"a/s&s <w>ö\rd`
	s := mustNew(t, []string{value}, nil)
	quoted, _ := json.Marshal(value)
	for _, text := range []string{
		value,
		string(quoted),
		`"` + inJSON(value, false) + `"`,
		url.QueryEscape(value),
		url.PathEscape(value),
	} {
		if got := s.String(text); !strings.Contains(got, mask) || strings.Contains(got, "s") {
			t.Errorf("%s: got %s", text, got)
		}
	}
	for before := range 9 {
		for after := range 9 {
			for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding,
				base64.RawStdEncoding} {
				text := encoding.EncodeToString([]byte(strings.Repeat("u", before) + value +
					strings.Repeat("v", after)))
				if got := s.String(text); !strings.Contains(got, mask) {
					t.Errorf("%d, %d: %s stays", before, after, got)
				}
			}
		}
	}
	if got := s.String(hexOf(value)); got != hexOf(value) { // as the package says
		t.Errorf("hexadecimal is masked: %s", got)
	}
}

// inJSON returns a text as encoding/json writes it; html: with <, > and & escaped.
func inJSON(v string, html bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(html)
	_ = e.Encode(v) // never fails for a string
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(b.String()), `"`), `"`)
}

func hexOf(s string) string { return fmt.Sprintf("%x", s) }

func TestJSON(t *testing.T) {
	s := mustNew(t, []string{"hunter2", "12345678", `a"b\c/d`}, []string{`tok_[a-z]{3}`, `[A-Za-z0-9+/]{40}`})
	image := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1, 2, 3}, 40))
	file := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("a file ", 20) + "hunter2" +
		strings.Repeat(" ends", 9)))
	for value, want := range map[string]string{
		`{"a":"x hunter2 y","b":[1,"tok_abc"]}`:          `{"a":"x *** y","b":[1,"***"]}`,
		`{"hunter2":true, "n" : 12345678}`:               `{"***":true, "n" : "***"}`,
		`{"a":"hunt\u0065r2"}`:                           `{"a":"***"}`,
		`{"a":"a\"b\\c\/d"}`:                             `{"a":"***"}`,
		`{"a": "untouched\u0041" , "b":null}`:            `{"a": "untouched\u0041" , "b":null}`,
		`{"type":"image","data":"` + image + `"}`:        `{"type":"image","data":"` + image + `"}`,
		`{"text":"` + image + `"}`:                       `{"text":"***"}`,
		`{"uri":"file:///x","blob":"` + file + `"}`:      `{"uri":"file:///x","blob":"Kioq"}`,
		`{"level":"info","data":"tok_abc is the token"}`: `{"level":"info","data":"*** is the token"}`,
		`not JSON: hunter2`:                              `not JSON: ***`,
		`"hunter2"`:                                      `"***"`,
	} {
		if got := s.JSON(json.RawMessage(value)); string(got) != want {
			t.Errorf("%s:\n got %s\nwant %s", value, got, want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for _, value := range []string{"qzqzq", "q", strings.Repeat("q", maxValue+1)} {
		if _, err := New([]string{value}, nil); err == nil || strings.Contains(err.Error(), value) {
			t.Errorf("a value of %d bytes: %v", len(value), err)
		}
	}
	for pattern, want := range map[string]string{
		`(`:         "missing closing",
		`x*`:        "fewer than 3 characters",
		`\b`:        "fewer than 3 characters",
		`aaa.*b`:    "without a limit",
		`aaa(b+c)?`: "without a limit",
		`\w{3,}\b`:  "without a limit",
		`x(.{1000}.{1000}){1}.{1000}.{1000}.{1000}y`: "5001 characters",
	} {
		if err := CheckPattern(pattern); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", pattern, err, want)
		}
	}
	for _, pattern := range []string{`aaa\S+`, `(?s)-----BEGIN .*`, `aaa.{0,1000}b`, `aaa(bc)*`,
		`aaa(b{1,50}c)?`, `token: {0,3}\w{20}`, `\w{3,50}\b`} {
		if err := CheckPattern(pattern); err != nil {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}

// Each secret, cut at each byte between two writes that hold whole characters, and given byte by byte.
func TestStreamAtEachByte(t *testing.T) {
	s := mustNew(t, []string{"hunter2hunter2", "täglich"},
		[]string{`AKIA[A-Z0-9]{16}`, `token=\w+`, `\bid:\d{3,5}\b`})
	text := "a hunter2hunter2 b täglich AKIAABCDEFGHIJKLMNOP token=abc_def, id:1234 id:123456 hunter2hunter2hunter2 hunter"
	want := s.String(text)
	if strings.Count(want, mask) != 6 {
		t.Fatal(want)
	}
	whole := func(pieces ...string) string {
		st := s.Stream()
		var got []byte
		for _, p := range pieces {
			got = append(got, st.Write([]byte(p))...)
		}
		return string(append(got, st.Flush()...))
	}
	for i := range text {
		if got := whole(text[:i], text[i:]); got != want {
			t.Fatalf("cut at %d: %q, want %q", i, got, want)
		}
	}
	if got := whole(strings.Split(text, "")...); got != want {
		t.Fatalf("character by character: %q, want %q", got, want)
	}
}

// Output that cannot be the beginning of a secret is given out at once, and so is output that is known to be
// one.
func TestStreamHoldsBackLittle(t *testing.T) {
	s := mustNew(t, []string{"hunter2"}, []string{`token=\w+`, `id:\d{4}\b`}).Stream()
	for _, step := range []struct{ write, want string }{
		{"plain words", "plain words"},
		{"the hu", "the "},
		{"man", "human"},
		{" hunter2", " ***"},
		{"hunter2", ""}, // it is the same run of secrets
		{" tok", " "},
		{"en=a", "***"},
		{"bcdef", ""},
		{" x", " x"},
		{"id:1234", ""}, // a digit may follow
		{"5", "id:12345"},
		{"id:1234", ""},
	} {
		if got := string(s.Write([]byte(step.write))); got != step.want {
			t.Errorf("after %q: %q, want %q", step.write, got, step.want)
		}
	}
	if got := string(s.Flush()); got != mask {
		t.Errorf("at the end: %q", got)
	}
}

// slowly is what Text must equal: each piece of text is held against each expression, whatever stands around
// it.
func slowly(text string, values, patterns []string) string {
	var list []*syntax.Regexp
	for _, v := range values {
		list = append(list, &syntax.Regexp{Op: syntax.OpLiteral, Rune: []rune(v)})
	}
	for _, p := range patterns {
		re, _ := syntax.Parse(p, syntax.Perl)
		list = append(list, re)
	}
	secret := make([]bool, len(text))
	for _, re := range list {
		prog, _ := syntax.Compile(re.Simplify())
		for begin := range text {
			for end := begin; end <= len(text); end++ {
				if matches(prog, text, begin, end) {
					for i := begin; i < end; i++ {
						secret[i] = true
					}
				}
			}
		}
	}
	var b strings.Builder
	for i := range len(text) {
		switch {
		case !secret[i]:
			b.WriteByte(text[i])
		case i == 0 || !secret[i-1]:
			b.WriteString(mask)
		}
	}
	return b.String()
}

// matches reports whether a program matches all of text[begin:end], by following all of its ways.
func matches(prog *syntax.Prog, text string, begin, end int) bool {
	before := func(i int) rune {
		if i == 0 {
			return -1
		}
		r, _ := utf8.DecodeLastRuneInString(text[:i])
		return r
	}
	after := func(i int) (rune, int) {
		if i == len(text) {
			return -1, 0
		}
		return utf8.DecodeRuneInString(text[i:])
	}
	type at struct {
		pc uint32
		i  int
	}
	seen := map[at]bool{}
	var go_ func(pc uint32, i int) bool
	go_ = func(pc uint32, i int) bool {
		if seen[at{pc, i}] {
			return false
		}
		seen[at{pc, i}] = true
		inst := &prog.Inst[pc]
		r, size := after(i)
		switch inst.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			return go_(inst.Out, i) || go_(inst.Arg, i)
		case syntax.InstCapture, syntax.InstNop:
			return go_(inst.Out, i)
		case syntax.InstEmptyWidth:
			return syntax.EmptyOp(inst.Arg)&^syntax.EmptyOpContext(before(i), r) == 0 && go_(inst.Out, i)
		case syntax.InstMatch:
			return i == end
		case syntax.InstFail:
			return false
		}
		return i < end && inst.MatchRune(r) && go_(inst.Out, i+size)
	}
	return go_(uint32(prog.Start), begin)
}

// A stream masks the same however its text is cut, and that is what the slow twin masks.
func FuzzStream(f *testing.F) {
	patterns := [][]string{nil, {`a+b`, `c.`}, {`\bab\b`, `(?m)^c+$`, `x(yz)?`}, {`(?i)ä.?c`, `b{2,3}a?`},
		{`[^a]b\B`, `a[^b]{2,4}$`, `\Ab`}}
	for i := range patterns {
		f.Add("aaabbbcccabc äcba\nccc\nxyzxyabcabcabcabc", uint8(i), uint64(0x1234567))
		f.Add("abcabcaabcabcbcabca", uint8(i), uint64(1<<40+7))
		f.Add("cabcabcxy\nabcab", uint8(i), ^uint64(0))
	}
	f.Fuzz(func(t *testing.T, text string, which uint8, cuts uint64) {
		text = strings.ToValidUTF8(text, "\uFFFD")
		if len(text) > 60 {
			text = strings.ToValidUTF8(text[:60], "")
		}
		values, list := []string{"abcabc", "bcabca"}, patterns[int(which)%len(patterns)]
		var exprs []*syntax.Regexp
		for _, p := range append([]string{"abcabc", "bcabca"}, list...) {
			re, _ := syntax.Parse(p, syntax.Perl)
			exprs = append(exprs, re)
		}
		m, err := newMachine(exprs) // not New: it would refuse such short ones
		if err != nil {
			t.Fatal(err)
		}
		set := &Set{all: m}
		want := slowly(text, values, list)
		if got := set.String(text); got != want {
			t.Fatalf("%q with %q: got %q, want %q", text, list, got, want)
		}
		s := set.Stream()
		var got []byte
		from, n := 0, 0
		for i := range text {
			if i > from && cuts>>(n%64)&1 == 1 {
				got = append(got, s.Write([]byte(text[from:i]))...)
				from = i
			}
			n++
		}
		got = append(append(got, s.Write([]byte(text[from:]))...), s.Flush()...)
		if string(got) != want {
			t.Fatalf("%q with %q, cut by %b: got %q, want %q", text, list, cuts, got, want)
		}
	})
}

func TestSetInAnotherProcess(t *testing.T) {
	s := mustNew(t, []string{"hunter2\xff", "other value"}, []string{`tok_\w+`})
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var again Set
	if err := json.Unmarshal(b, &again); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"hunter2\xff", "an other value", "tok_abc"} {
		if got := again.String(text); got != s.String(text) || !strings.Contains(got, mask) {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestWriter(t *testing.T) {
	var b bytes.Buffer
	var c Current
	w := c.Writer(&b)
	line := `{"level":"info","error":"dial: token=a\"b","n":1}` + "\n"
	_, _ = w.Write([]byte(line))
	c.Replace(mustNew(t, nil, []string{`token=\S+`}))
	if n, err := w.Write([]byte(line)); n != len(line) || err != nil {
		t.Error(n, err)
	}
	_, _ = w.Write([]byte("text token=x\n"))
	if want := line + `{"level":"info","error":"dial: ***","n":1}` + "\ntext ***\n"; b.String() != want {
		t.Errorf("got %s", b.String())
	}
}

func BenchmarkStream(b *testing.B) {
	five := []string{"ghp_16C7e42F292c6912E7710c838347Ae178B4a", "hunter2hunter2",
		"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "postgres://app:s3cr3t@db/app",
		"xoxb-17653672481-19874698323"}
	line := "main.go:123: the quick brown fox jumps over the lazy dog, and \"nobody\" minds it\n"
	text := []byte(strings.Repeat(line, (32<<10)/len(line)))
	for name, patterns := range map[string][]string{"5 values": nil,
		"5 values, 2 patterns": {`AKIA[A-Z0-9]{16}`, `(?i)password=\S+`}, "any 40": {`[A-Za-z0-9]{40}`}} {
		b.Run(name, func(b *testing.B) {
			s := mustNew(b, five, patterns).Stream()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				s.Write(text)
			}
		})
	}
}
