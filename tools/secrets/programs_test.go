package secrets

import (
	"bytes"
	"encoding/base64"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// What the commonest programs print of a secret is masked, however the text is cut into pieces. Where PHP is
// not installed, what its documentation says stands for it.
func TestWhatProgramsPrint(t *testing.T) {
	if testing.Short() {
		t.Skip("starts two dozen programs, which takes half a minute on a busy machine: make ci has it")
	}
	secret := `p"ä/s&s <w>ö\rd!'()*~.:@=+,;$#%?€😀-` +
		"tail of a long secret that takes more than one line of base64"
	s := mustNew(t, []string{secret}, nil)
	python := func(print string) []string {
		return []string{"python3", "-c", "import sys, json, base64, urllib.parse as u\n" +
			"raw = sys.stdin.buffer.read(); text = raw.decode(); out = sys.stdout.buffer\n" + print}
	}
	node := func(value string) []string {
		return []string{"node", "-e", "raw = require('fs').readFileSync(0); text = String(raw); console.log(" + value + ")"}
	}
	php := func(value string) []string {
		return []string{"php", "-r", "$text = stream_get_contents(STDIN); echo " + value + ";"}
	}
	for _, argv := range [][]string{
		{"base64"},
		{"base64", "-w", "64"},
		{"openssl", "base64"},
		{"openssl", "enc", "-a"},
		python("out.write(base64.encodebytes(raw))"),
		python("out.write(base64.urlsafe_b64encode(raw))"),
		python("print(json.dumps(text))"),
		python("print(json.dumps(base64.encodebytes(raw).decode()))"),
		python("out.write(json.dumps(text, ensure_ascii=False).encode())"),
		python("print(u.quote(text))"),
		python("print(u.quote_plus(text))"),
		node("encodeURIComponent(text)"),
		node("encodeURIComponent(text).replace(/%../g, x => x.toLowerCase())"),
		node("String(new URLSearchParams({a: text}))"),
		node("raw.toString('base64')"),
		node("raw.toString('base64url')"),
		node("JSON.stringify(text)"),
		php("json_encode($text)"),
		php("rawurlencode($text)"),
		php("urlencode($text)"),
		php("chunk_split(base64_encode($text))"),
		php("json_encode(chunk_split(base64_encode($text)))"),
		{"jq", "-Rrs", "@uri"},
		{"jq", "-Rrs", "@base64"},
		{"jq", "-Rrs", "@json"},
		{"jq", "-Rsa", "."},
	} {
		if _, err := exec.LookPath(argv[0]); err != nil {
			t.Logf("%s is not installed", argv[0])
			continue
		}
		name := strings.Join(argv, " ")
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Stdin = strings.NewReader(secret)
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		masksNearlyAll(t, s, name, string(out))
	}
	// PHP's documentation: json_encode escapes / and all beyond ASCII.
	asPHP := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "/", `\/`, "ä", `\u00e4`, "ö", `\u00f6`, "€", `\u20ac`,
		"😀", `\ud83d\ude00`).Replace(secret)
	masksNearlyAll(t, s, "json_encode", asPHP)
	upper := regexp.MustCompile(`\\u....`).ReplaceAllStringFunc(asPHP, func(u string) string {
		return `\u` + strings.ToUpper(u[2:])
	})
	masksNearlyAll(t, s, "in upper case", upper)
}

// masksNearlyAll checks that only a few characters of a text are shown: quotes, names, line ends, and what
// base64 shares with other bytes.
func masksNearlyAll(t *testing.T, s *Set, name, text string) {
	t.Helper()
	want := s.String(text)
	if rest := strings.ReplaceAll(want, mask, ""); !strings.Contains(want, mask) || len(rest) > 9 {
		t.Errorf("%s: %q becomes %q", name, text, want)
	}
	for n := 1; n <= 7; n += 3 {
		var got bytes.Buffer
		stream, piece := s.Stream(), ""
		for _, r := range text {
			if piece += string(r); len(piece) >= n {
				got.Write(stream.Write([]byte(piece)))
				piece = ""
			}
		}
		got.Write(stream.Write([]byte(piece)))
		got.Write(stream.Flush())
		if got.String() != want {
			t.Errorf("%s, in pieces of %d: %q, want %q", name, n, &got, want)
		}
	}
}

// Wherever the lines of base64 end in a value, at most its first character and what it shares with other
// bytes is shown.
func TestWrappedAnywhere(t *testing.T) {
	const value = "hunter2/hunter2?hunter2>hunter2" // fits in a line
	s := mustNew(t, []string{value}, nil)
	for before := range 80 {
		for _, width := range []int{64, 76} {
			for _, end := range []string{"\n", "\r\n", `\n`, `\r\n`} {
				letters := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("u", before) +
					value + "vvvvv"))
				text := ""
				for rest := letters; rest != ""; rest = rest[min(width, len(rest)):] {
					text += rest[:min(width, len(rest))] + end
				}
				got := strings.NewReplacer("\r", "", "\n", "", `\r`, "", `\n`, "", mask, "").
					Replace(s.String(text))
				if most := len(letters) - len(value)*8/6 + 2; len(got) > most {
					t.Errorf("%d bytes before, %d columns: %d letters stay, want at most %d", before, width,
						len(got), most)
				}
			}
		}
	}
}
