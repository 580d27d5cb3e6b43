package page

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
)

// "well below 100 KiB" (it goes through the hosts of MCP Apps with each view).
func TestPageIsSmallAndWhole(t *testing.T) {
	html := HTML()
	t.Logf("the page has %d bytes", len(html))
	if len(html) > 96<<10 {
		t.Errorf("the page has %d bytes", len(html))
	}
	if bytes.Contains(html, []byte("{{")) {
		t.Error("a part was not put in")
	}
	if n := bytes.Count(html, []byte("</script")); n != 1 {
		t.Errorf("%d ends of scripts: a source closes the element that it stands in", n)
	}
	if at := regexp.MustCompile(`(?i)(src|href)="(https?:)?//|@import|url\(\s*["']?(https?:)?//`).
		Find(html); at != nil {
		t.Errorf("the page loads %s", at)
	}
}

// A task's output must never become markup.
func TestNothingAssignsMarkup(t *testing.T) {
	markup := regexp.MustCompile(`\b(innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|eval|Function|srcdoc|setHTMLUnsafe)\b`)
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".js") {
			continue
		}
		read++
		text, err := os.ReadFile(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		if found := markup.FindAllString(string(text), -1); found != nil {
			t.Errorf("%s: %q", e.Name(), found)
		}
	}
	if read != len(scripts) {
		t.Errorf("%d scripts there, %d in the page", read, len(scripts))
	}
}

func TestPolicyHasNoLeak(t *testing.T) {
	if strings.Contains(Policy(), "unsafe") {
		t.Error(Policy())
	}
	if html := HTML(); bytes.Contains(html, []byte(" style=\"")) ||
		regexp.MustCompile(`\son[a-z]+="`).Match(html) {
		t.Error("the policy refuses attributes with style or script")
	}
}
