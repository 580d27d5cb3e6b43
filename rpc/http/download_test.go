package httpserver

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
)

// someFile is the only file of the server of the tests.
func someFile(_ context.Context, task, name string) (*File, error) {
	if task != "ID" || name != "report/a b.html" {
		return nil, nil
	}
	return &File{Name: name, MIMEType: "text/html; charset=utf-8", SHA256: "abc",
		Content: strings.NewReader("<script>0123456789</script>")}, nil
}

// A file is downloaded with a token, as a whole and in ranges, and never as a page that runs.
func TestDownload(t *testing.T) {
	tokens, err := ReadTokens(strings.NewReader("secret-token-of-local local\n"))
	if err != nil {
		t.Fatal(err)
	}
	f := serve(t, Options{Tokens: always(tokens)})
	get := func(path, token, ranged string) (status int, body string, h http.Header) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			strings.TrimSuffix(f.url, "/mcp")+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		if ranged != "" {
			r.Header.Set("Range", ranged)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text), answer.Header
	}
	const path = "/tasks/ID/files/report/a%20b.html"
	for range 2 {
		status, body, h := get(path, "secret-token-of-local", "")
		if status != http.StatusOK || body != "<script>0123456789</script>" {
			t.Errorf("%d %q", status, body)
		}
		if h.Get("Content-Disposition") != `attachment; filename="a b.html"` ||
			!strings.HasPrefix(h.Get("Content-Security-Policy"), "sandbox") ||
			h.Get("X-Content-Type-Options") != "nosniff" ||
			h.Get("Content-Type") != "text/html; charset=utf-8" || h.Get("ETag") != `"abc"` {
			t.Errorf("%v", h)
		}
		if status, body, _ := get(path, "secret-token-of-local",
			"bytes=8-11"); status != http.StatusPartialContent || body != "0123" {
			t.Errorf("a range: %d %q", status, body)
		}
		for name, want := range map[string]int{path: http.StatusUnauthorized,
			"/tasks/ID/files/other": http.StatusUnauthorized} {
			if status, _, _ := get(name, "", ""); status != want {
				t.Errorf("%s without a token: %d", name, status)
			}
			if status, _, _ := get(name, "wrong", ""); status != want {
				t.Errorf("%s with another token: %d", name, status)
			}
		}
		for _, name := range []string{"/tasks/ID/files/other", "/tasks/OTHER/files/report/a%20b.html",
			"/tasks/ID/files/..%2f..%2fpasswd"} {
			if status, _, _ := get(name, "secret-token-of-local", ""); status != http.StatusNotFound {
				t.Errorf("%s: %d", name, status)
			}
		}
	}
}
