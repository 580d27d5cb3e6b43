package feed

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"runnel/partials"
)

// A mark says what it was made of, and one that a client has made up says nothing or something harmless.
func TestMarks(t *testing.T) {
	t.Parallel()
	text, _ := json.Marshal(origin{Task: "task", Spelling: PR383, Token: json.RawMessage(`"a{\n[1]"`)})
	m := &marked{partials.NewSEP2679([]byte(`{"jsonrpc":"2.0"`), "task", nil),
		base64.RawURLEncoding.EncodeToString(text), 7}
	m.Resume(3)
	p, err := parseMark(m.mark(m.Count(), 2))
	same := p.Task == "task" && p.Spelling == PR383 && string(p.Token) == `"a{\n[1]"` && p.Request == nil
	if err != nil || !same || p.pos != 7 || p.count != 3 || p.closing != 2 {
		t.Errorf("%+v %v", p, err)
	}
	if p, err := parseMark(m.last()); err != nil || p.closing != closed {
		t.Errorf("%+v %v", p, err)
	}
	lines := string(m.insert([]byte("before\n{\"a\":1}\n{\"b\":2}\n"), len("before\n"),
		func() string { return "MARK" }))
	if lines != "before\n"+noMark+"{\"a\":1}\nMARK{\"b\":2}\n" {
		t.Errorf("%q", lines)
	}
	encode := func(origin string) string {
		return base64.RawURLEncoding.EncodeToString([]byte(origin)) +
			".0.0.0"
	}
	for _, text := range []string{
		"", noMark, "...", "a.b.c.d", m.origin, m.origin + ".1.2", m.origin + ".1.2.3.4",
		m.origin + ".-1.0.0", m.origin + ".1.x.0",
		m.origin + ".99999999999999999999.0.0", encode(`{}`), encode(`{"t":"x"}`), encode(`{"t":"x","s":99}`),
		encode(`{"t":"x","s":2}`), encode(`{"t":"x","s":1}`), encode(`{"t":"x","s":1,"r":{"a":1}}`),
		encode(`{"t":"x","s":1,"r":null}`), encode(`{"t":"x","s":2,"p":[1]}`), encode(`[]`),
		encode("{\"t\":\"x\",\"s\":1,\"r\":\"a\nb\"}"), strings.Repeat("A", 1000) + ".0.0.0",
	} {
		if p, err := parseMark(text); err == nil {
			t.Errorf("%q is taken for %+v", text, p)
		}
	}
}
