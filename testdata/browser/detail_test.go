package browser

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"
)

// The status line has the mark, the exit code and the time; the last words of a failure are whole; ids and
// full dates are in the tooltip; most of the screen is the log's.
func TestStatusLine(t *testing.T) {
	t.Parallel()
	u := start(t, `
tools:
  lint:
    input: {path: {type: string, default: .}, fast: {type: boolean}}
    shell: 'printf "\033[31m%s\033[0m\n" "server.go:41: a mistake that takes many words to explain, and more, and more, and more, and more, to the last word" >&2; exit 2'
`)
	u.call("lint", "path=./x y", "fast=true")()
	u.call("lint")()
	p := open(t, u.url, "light", size{1440, 900})
	p.openTask("lint")
	p.until("the end", `/^✕ failed · exit code 2 · [\d.]+ m?s$/.test(`+status+`)`)
	for _, s := range []size{{1440, 900}, {1024, 700}, {390, 844}} {
		p.look("light", s)
		p.until("the layout", fmt.Sprintf("innerWidth === %d", s.width))
		if said := p.text("#message"); !strings.HasSuffix(said, "to the last word") ||
			eval[bool](p, `(e => e.scrollWidth > e.clientWidth)(document.getElementById("message"))`) {
			t.Errorf("%v: the last line is %q", s, said)
		}
		if share := eval[float64](p, `document.getElementById("log").clientHeight / innerHeight`); share < .5 || s.width > 1000 && s.height > 800 && share < .66 {
			t.Errorf("%v: the log has %.2f of the screen", s, share)
		}
	}
	if keys := eval[bool](p, `document.getElementById("keys").offsetParent !== null`); keys {
		t.Error("a phone is shown keys")
	}
	title := eval[string](p, `document.getElementById("badge").title`)
	for _, want := range []string{eval[string](p, "view.id"), time.Now().Format("2006"), "ended"} {
		if !strings.Contains(title, want) || strings.Contains(p.text("#facts"), want) {
			t.Errorf("the tooltip is %q, the line %q", title, p.text("#facts"))
		}
	}
	if n := eval[int](p, `document.querySelectorAll("#timeline svg").length`); n != 0 {
		t.Error("a run of which no times are known has a timeline")
	}
}

// Rows end at blanks, whatever the line is made of, and no letter is lost.
func TestWordsWrapAtBlanks(t *testing.T) {
	t.Parallel()
	p := open(t, start(t, tools).url, "light", desktop)
	for text, want := range map[string]string{
		"one two three four":              "one two |three four",
		"one two threefour":               "one two |threefour",
		"exactly ten and":                 "exactly |ten and",
		"0123456789 next":                 "0123456789 |next",
		"0123456789abcdef next":           "0123456789|abcdef |next",
		"      indented-and-long":         "      inde|nted-and-l|ong",
		"\x1b[31mone two\x1b[0m three go": "one two |three go",
		"ää öö üü ßß ää":                  "ää öö üü |ßß ää",
		"漢字漢字漢字 漢":                        "漢字漢字漢|字 漢",
		"":                                "",
	} {
		got := eval[string](p, fmt.Sprintf(`layout({text: %q, style: PLAIN}, 10).map(row => row.map(run => run.text).join("")).join("|")`, text))
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// A log is copied and downloaded whole, without its escape sequences.
func TestCopyAndDownload(t *testing.T) {
	t.Parallel()
	u := start(t, `
tools:
  long:
    shell: 'for i in $(seq 1 9000); do printf "\033[31mline %s\033[0m with words that make it long enough for several answers\n" $i; done; printf "10%%\r100%%\n"'
`)
	u.call("long")()
	p := open(t, u.url, "light", desktop)
	dir := t.TempDir()
	send(p, browser.SetDownloadBehavior,
		browser.SetDownloadBehaviorParams{Behavior: "allow", DownloadPath: dir})
	p.openTask("long")
	p.until("the colours that the log keeps", `document.querySelector("#canvas .f1")`)
	p.until("the end", status+`.includes("completed")`)
	eval[chromedp.Void](p, `window.copied = ""; Object.defineProperty(navigator, "clipboard", {value: {writeText: async text => { copied = text; }}})`)
	var want strings.Builder
	for i := range 9000 {
		fmt.Fprintf(&want, "line %d with words that make it long enough for several answers\n", i+1)
	}
	want.WriteString("100%\n")
	for range 2 {
		p.click("#copy")
		p.until("the copy", `copied !== "" && !document.getElementById("copy").disabled`)
		if got := eval[string](p, "copied"); got != want.String() {
			t.Errorf("copied %d bytes, want %d", len(got), want.Len())
		}
		eval[chromedp.Void](p, `copied = ""`)
	}
	p.click("#download")
	name := eval[string](p, "`long-${view.id.slice(0, 8)}.log`")
	var got []byte
	for begin := time.Now(); len(got) < want.Len() &&
		time.Since(begin) < limit; time.Sleep(50 * time.Millisecond) {
		got, _ = os.ReadFile(filepath.Join(dir, name))
	}
	if string(got) != want.String() {
		t.Errorf("%s has %d bytes, want %d", name, len(got), want.Len())
	}
}
