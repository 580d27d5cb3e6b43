package cli

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

const viewTasks = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"view_tasks","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}}}}`

// The live view answers its own page only: without the token, from another site, or under another name there
// is nothing to see.
func TestUI(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	out, stdout := io.Pipe()
	var stderr bytes.Buffer
	ended := make(chan int, 1)
	env := append(environ(t), "RUNNEL_CONFIG="+os.DevNull, "RUNNEL_STATE="+t.TempDir()) // the last one counts
	go func() {
		ended <- Run(ctx, []string{"ui", "--no-open", "--tool", "hello=echo hello"}, env,
			strings.NewReader(""), stdout, &stderr)
		_ = stdout.Close()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	at, err := url.Parse(strings.TrimSpace(line))
	if err != nil || at.Hostname() != "127.0.0.1" || at.Port() == "0" ||
		!strings.HasPrefix(at.Fragment, "token=") || len(at.Fragment) < 30 {
		t.Fatalf("it printed %q", line)
	}
	token := strings.TrimPrefix(at.Fragment, "token=")
	at.Fragment = ""
	send := func(change func(r *http.Request)) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String()+"mcp",
			strings.NewReader(viewTasks))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Content-Type": "application/json",
			"Accept": "application/json, text/event-stream", "Authorization": "Bearer " + token,
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "view_tasks"} {
			r.Header.Set(name, value)
		}
		change(r)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer, string(text)
	}
	get := func(r *http.Request) {
		r.Method = http.MethodGet
		r.URL.Path = "/"
		r.Body = http.NoBody
		r.ContentLength = 0
		r.Header.Del("Authorization")
	}
	if page, text := send(get); page.StatusCode != http.StatusOK ||
		!strings.Contains(text, "<title>runnel</title>") ||
		!strings.HasPrefix(page.Header.Get("Content-Security-Policy"),
			"default-src 'none'; script-src 'sha256-") ||
		page.Header.Get("Referrer-Policy") != "no-referrer" ||
		strings.Contains(text, token) {
		t.Errorf("the page: %s %q\n%.500s", page.Status, page.Header, text)
	}
	if answer, text := send(func(*http.Request) {}); answer.StatusCode != http.StatusOK ||
		!strings.Contains(text, `"structuredContent":{"tasks":[]`) {
		t.Errorf("with the token: %s %s", answer.Status, text)
	}
	for name, c := range map[string]struct {
		status int
		change func(r *http.Request)
	}{
		"without a token": {http.StatusUnauthorized,
			func(r *http.Request) { r.Header.Del("Authorization") }},
		"with another token": {http.StatusUnauthorized,
			func(r *http.Request) {
				r.Header.Set("Authorization",
					"Bearer "+strings.Repeat("A", len(token)))
			}},
		"from another site": {http.StatusForbidden,
			func(r *http.Request) { r.Header.Set("Origin", "https://example.com") }},
		"under another name": {http.StatusForbidden, func(r *http.Request) { r.Host = "example.com" }},
		"the page, by other names": {http.StatusForbidden,
			func(r *http.Request) { get(r); r.Host = "example.com" }},
	} {
		if answer, text := send(c.change); answer.StatusCode != c.status {
			t.Errorf("%s: %s %s", name, answer.Status, text)
		}
	}
	stop()
	if code := <-ended; code != exitFine || stderr.Len() > 0 {
		t.Errorf("exit code %d\n%s", code, &stderr)
	}
}

// The view is opened in the browser of the desktop; the address is printed in each case, and it is said when
// no browser could be opened.
func TestUIOpensABrowser(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows opens it without a program that a test could stand in for")
	}
	fake, opened := t.TempDir(), filepath.Join(t.TempDir(), "opened")
	for _, name := range []string{"xdg-open", "open"} {
		script := "#!/bin/sh\nprintf '%s %s' \"$XDG_CURRENT_DESKTOP\" \"$1\" >'" + opened + "-part' && mv '" +
			opened + "-part' '" + opened + "'\n"
		if err := os.WriteFile(filepath.Join(fake, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct{ path, display, says string }{
		"a desktop": {fake + ":" + os.Getenv("PATH"), ":7", ""},
		"no program to open it": {t.TempDir(), ":7",
			"open the address in your browser; it could not be opened for you"},
		"no desktop": {fake + ":" + os.Getenv("PATH"), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_ = os.Remove(opened)
			t.Setenv("PATH", c.path)
			ctx, stop := context.WithCancel(t.Context())
			out, stdout := io.Pipe()
			var stderr bytes.Buffer
			ended := make(chan int, 1)
			env := append(environ(t), "RUNNEL_CONFIG="+os.DevNull, "RUNNEL_STATE="+t.TempDir(),
				"DISPLAY="+c.display, "XDG_CURRENT_DESKTOP=TEST")
			go func() {
				ended <- Run(ctx, []string{"ui", "--tool", "hello=/bin/echo hello"}, env,
					strings.NewReader(""), stdout, &stderr)
				_ = stdout.Close()
			}()
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil || !strings.Contains(line, "#token=") {
				t.Errorf("it printed %q, %v\n%s", line, err, &stderr)
			}
			if opens := c.says == "" && (c.display != "" || runtime.GOOS == "darwin"); opens {
				begin, text := time.Now(), []byte(nil)
				for range time.Tick(10 * time.Millisecond) {
					if text, err = os.ReadFile(opened); err == nil || time.Since(begin) > time.Minute {
						break
					}
				}
				if string(text) != "TEST "+strings.TrimSpace(line) {
					t.Errorf("%q was opened, %v; the address is %q", text, err, line)
				}
			}
			stop()
			if code := <-ended; code != exitFine || !strings.Contains(stderr.String(), c.says) ||
				c.says == "" && stderr.Len() > 0 {
				t.Errorf("exit code %d\n%s", code, &stderr)
			}
			if _, err := os.Stat(opened); c.display == "" && runtime.GOOS != "darwin" && err == nil {
				t.Error("a browser of the terminal was opened")
			}
		})
	}
}

func TestUIStaysOnThisMachine(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", "[::]:0", "192.0.2.1:80", "example.com:80"} {
		runCommand(t, "ui", "--no-open", "--addr", address).
			is(t, exitUsage, "", "can be reached by other machines \\(allowed: an address of this machine alone")
	}
	runCommand(t, "ui", "--no-open", "--addr", "8080").is(t, exitUsage, "", `"8080" is not an address`)
}
