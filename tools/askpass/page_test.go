package askpass

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// A page takes one password, from a browser of this machine that has its address. Looking at it changes
// nothing, and the words of a program are text in it.
func TestPage(t *testing.T) {
	t.Parallel()
	for range 2 {
		p, err := Open(`<script>alert("asks")</script>`)
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: &http.Transport{}}
		answer := func(method, address string, header http.Header, form url.Values) (status int, body string) {
			t.Helper()
			r, err := http.NewRequest(method, address, strings.NewReader(form.Encode()))
			if err != nil {
				t.Fatal(err)
			}
			r.Header = header.Clone()
			if r.Header == nil {
				r.Header = http.Header{}
			}
			if r.Host = r.Header.Get("Host"); form != nil {
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			}
			got, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer got.Body.Close()
			text, err := io.ReadAll(got.Body)
			if err != nil {
				t.Fatal(err)
			}
			return got.StatusCode, string(text)
		}
		for range 2 { // a client may look before its user does
			status, body := answer("GET", p.URL, nil, nil)
			if status != http.StatusOK || !strings.Contains(body, `&lt;script&gt;alert(&#34;asks&#34;)`) ||
				strings.Contains(body, "<script") || !strings.Contains(body, `type="password"`) {
				t.Errorf("%d %s", status, body)
			}
		}
		typed := func(password string) url.Values { return url.Values{"password": {password}} }
		base := p.URL[:strings.LastIndexByte(p.URL, '/')+1]
		for _, c := range []struct {
			address string
			header  http.Header
			form    url.Values
			want    int
		}{
			{base, nil, typed("guessed"), http.StatusNotFound},
			{base + "AAAAAAAAAAAAAAAAAAAAAAAAAA", nil, typed("guessed"), http.StatusNotFound},
			{p.URL, http.Header{"Host": {"rebound.example"}}, typed("from another site"), http.StatusForbidden},
			{p.URL, http.Header{"Origin": {"https://site.example"}}, typed("from another site"), http.StatusForbidden},
			{p.URL, http.Header{"Origin": {"null"}}, typed("from a sandboxed frame"), http.StatusForbidden},
			{p.URL, nil, typed("\x03"), http.StatusBadRequest},
			{p.URL, nil, typed("two\nlines"), http.StatusBadRequest},
			{p.URL, nil, typed(strings.Repeat("x", maxPassword+1)), http.StatusBadRequest},
			{p.URL, http.Header{"Origin": {strings.TrimSuffix(base, "/")}}, typed("réal p&ss=word"), http.StatusOK},
			{p.URL, nil, typed("the second"), http.StatusGone},
		} {
			if status, body := answer("POST", c.address, c.header, c.form); status != c.want ||
				strings.Contains(body, "p&ss") {
				t.Errorf("%s %v %v: %d %s", c.address, c.header, c.form, status, body)
			}
		}
		if got := <-p.Password(); got != "réal p&ss=word" {
			t.Errorf("the password is %q", got)
		}
		select {
		case got := <-p.Password():
			t.Errorf("a second password: %q", got)
		default:
		}
		p.Close()
		if _, err := client.Get(p.URL); err == nil {
			t.Error("the page is still there")
		}
	}
}
