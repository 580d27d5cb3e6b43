// Package browser looks at the live view in a real Chromium (README.md).
package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

var (
	runnel   = flag.String("runnel", "../../bin/runnel", "the runnel `binary`")
	chromium = flag.String("chromium", "", "the `browser` (default chromium, or what chromedp finds)")
	cache    = flag.String("cache", "",
		"`directory` where packages of npm are installed (default runnel-browser in the user's cache)")
)

// limit is how long one thing may take: the machine may be busy.
const limit = 60 * time.Second

// ui is a "runnel ui" with a state of its own.
type ui struct {
	t             *testing.T
	url           string
	dir           string
	program, file string // the binary, the config
	stop          func()
}

// start starts one. It ends with the test, and may leave nothing behind.
func start(t *testing.T, config string) *ui {
	t.Helper()
	program, err := filepath.Abs(*runnel)
	if err != nil {
		t.Fatal(err)
	}
	u := &ui{t: t, dir: t.TempDir(), program: program}
	u.file = filepath.Join(u.dir, "runnel.yaml")
	if err := os.WriteFile(u.file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := u.command("ui", "--no-open")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	u.stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		if err := cmd.Wait(); err != nil {
			t.Errorf("runnel ui: %v", err)
		}
	})
	t.Cleanup(u.stop)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("runnel ui: %v", err)
	}
	u.url = strings.TrimSpace(line)
	return u
}

// command is a runnel of the same state and config.
func (u *ui) command(args ...string) *exec.Cmd {
	cmd := exec.Command(u.program,
		append(args, "--config", u.file, "--state", filepath.Join(u.dir, "state"))...)
	cmd.Dir, cmd.Stderr = u.dir, os.Stderr
	return cmd
}

// call lets another runnel run a tool. The returned function waits for it.
func (u *ui) call(args ...string) (wait func()) {
	u.t.Helper()
	cmd := u.command(append([]string{"call", "--progress", "never"}, args...)...)
	cmd.Stderr = nil
	if err := cmd.Start(); err != nil {
		u.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }() // how it ended is what the view shows
	wait = func() { <-ended }
	u.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		wait()
	})
	return wait
}

// page is a tab of a browser.
type page struct {
	t *testing.T
	context.Context

	mu     sync.Mutex
	errors []string

	mayFail string // errors with this in them are expected
}

// size of a window.
type size struct{ width, height int64 }

var (
	desktop = size{1280, 860}
	phone   = size{360, 740}
)

// open opens a URL in a browser of its own. Whatever the page logs as an error fails the test: also what its
// policy refuses.
func open(t *testing.T, url, scheme string, s size) *page {
	t.Helper()
	o := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.WindowSize(int(s.width), int(s.height)),
		chromedp.Flag("enable-precise-memory-info", true))
	if os.Getuid() == 0 {
		o = append(o, chromedp.NoSandbox) // Chromium refuses it to root
	}
	if *chromium != "" {
		o = append(o, chromedp.ExecPath(*chromium))
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), o...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	p := &page{t: t, Context: ctx}
	p.do(chromedp.Navigate("about:blank"))
	said := chromedp.Console(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for message, err := range said {
			if err != nil {
				return
			}
			if message.Type == "error" || message.Type == chromedp.ConsoleException {
				p.mu.Lock()
				p.errors = append(p.errors, message.Text)
				p.mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, text := range p.errors {
			if p.mayFail == "" || !strings.Contains(text, p.mayFail) {
				t.Errorf("the page: %s", text)
			}
		}
	})
	p.look(scheme, s)
	p.do(chromedp.Navigate(url))
	return p
}

// frame is the frame of a page whose URL ends so. It has a process of its own, as it has an origin of its
// own.
func (p *page) frame(end string) *page {
	p.t.Helper()
	for begin := time.Now(); time.Since(begin) < limit; time.Sleep(50 * time.Millisecond) {
		targets, err := chromedp.Targets(p)
		if err != nil {
			p.t.Fatal(err)
		}
		for _, info := range targets {
			if info.Type == "iframe" && strings.HasSuffix(info.URL, end) {
				ctx, cancel := chromedp.NewContext(p, chromedp.WithTargetID(info.TargetID))
				p.t.Cleanup(cancel)
				in := &page{t: p.t, Context: ctx}
				in.do() // attaches to it
				return in
			}
		}
	}
	p.t.Fatalf("no frame is at %s", end)
	return nil
}

// look sets the colour scheme that the user prefers, and the size of the window.
func (p *page) look(scheme string, s size) {
	p.t.Helper()
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
	send(p, emulation.SetDeviceMetricsOverride,
		emulation.SetDeviceMetricsOverrideParams{Width: s.width, Height: s.height, DeviceScaleFactor: 1,
			Mobile: s == phone})
	send(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features})
}

// send sends a command of the protocol.
func send[P, R any](p *page, command cdp.Command[P, R], params P) R {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p, limit)
	defer cancel()
	result, err := chromedp.Call(ctx, command, params)
	if err != nil {
		p.t.Fatalf("%s: %v", command.Method, err)
	}
	return result
}

func (p *page) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx := p.Context
	if chromedp.FromContext(ctx).Target != nil { // the first one's context is the browser's
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// eval evaluates an expression; a promise is awaited.
func eval[T any](p *page, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p, limit)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%.200s: %v", expression, err)
	}
	return value
}

// until waits until an expression is true. It asks from outside: the page's policy forbids what chromedp.Poll
// does.
func (p *page) until(what, expression string) {
	p.t.Helper()
	for begin := time.Now(); !eval[bool](p, "Boolean("+expression+")"); time.Sleep(20 * time.Millisecond) {
		if time.Since(begin) > limit {
			p.picture(filepath.Join(os.TempDir(), "runnel-browser-failed.png"))
			p.t.Fatalf("%s does not come\n%.3000s", what, p.text("body"))
		}
	}
}

// text is what an element shows.
func (p *page) text(selector string) string {
	p.t.Helper()
	return eval[string](p, fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector))
}

func (p *page) click(selector string) { p.t.Helper(); p.do(chromedp.Click(chromedp.CSS(selector))) }

// keys presses keys where the focus is.
func (p *page) keys(keys ...string) {
	p.t.Helper()
	for _, key := range keys {
		p.do(chromedp.KeyEvent(key))
	}
}

func (p *page) picture(file string) {
	p.t.Helper()
	if err := os.WriteFile(file, send(p, cdppage.CaptureScreenshot, cdppage.CaptureScreenshotParams{}).Data,
		0o600); err != nil {
		p.t.Fatal(err)
	}
	p.t.Logf("a picture: %s", file)
}

// The questions to the page.
const (
	status = `(document.getElementById("badge")?.textContent ?? "")`
	found  = `document.getElementById("found").textContent`
)

// shown is a condition: a row of the output begins with a text.
func shown(text string) string {
	quoted, _ := json.Marshal(text) // a text can be encoded
	return fmt.Sprintf(`[...document.querySelectorAll("#canvas .row")].some(e => e.textContent.startsWith(%s))`, quoted)
}

// openTask opens the newest task of a tool, once it is there.
func (p *page) openTask(tool string) {
	p.t.Helper()
	at := fmt.Sprintf(`[...document.querySelectorAll("#tasks .open")].find(b => b.querySelector(".tool").firstChild.textContent === %q)`, tool)
	p.until("the task "+tool, at+" !== undefined")
	eval[chromedp.Void](p, at+".click()")
}

// find searches the output.
func (p *page) find(pattern string) {
	p.t.Helper()
	p.do(chromedp.SetValue(chromedp.CSS("#pattern"), pattern))
	p.keysIn("#pattern", "\r")
}

// keysIn presses keys in an element.
func (p *page) keysIn(selector string, keys ...string) {
	p.t.Helper()
	p.do(chromedp.Focus(chromedp.CSS(selector)))
	p.keys(keys...)
}
