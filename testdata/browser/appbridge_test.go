package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
)

// appHost is a host of MCP Apps: a web page with the official AppBridge (app/host.js), a sandbox of another
// origin, and a runnel over HTTP.
type appHost struct {
	*page
	frame int // the execution context where the view is looked at; 0 = there is none yet
}

// serveHTTP starts a runnel that serves HTTP, and returns its URL.
func serveHTTP(t *testing.T, config string) *url.URL {
	t.Helper()
	program, err := filepath.Abs(*runnel)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "runnel.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	cmd := exec.Command(program, "--config", file, "--state", filepath.Join(dir, "state"), "--http", address,
		"--no-stdio")
	cmd.Dir = dir
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v\n%s", err, &log)
		}
	})
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
			return &url.URL{Scheme: "http", Host: address}
		}
		if time.Since(begin) > limit {
			t.Fatal(err)
		}
	}
}

// policy is what a host makes of the domains that a resource declares (specification 2026-01-26, "Content
// Security Policy Enforcement").
func policy(t *testing.T, declared string) string {
	var csp struct{ ConnectDomains, ResourceDomains, FrameDomains, BaseURIDomains []string }
	if err := json.Unmarshal([]byte(declared), &csp); err != nil {
		t.Error(err)
	}
	if len(csp.ConnectDomains)+len(csp.ResourceDomains)+len(csp.FrameDomains)+len(csp.BaseURIDomains) > 0 {
		t.Errorf("the view asks for domains: %s", declared)
	}
	return "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; connect-src 'none'; img-src 'self' data:; " +
		"font-src 'self'; media-src 'self' data:; frame-src 'none'; object-src 'none'; base-uri 'self'"
}

// openHost opens a host with a server.
func openHost(t *testing.T, config string) *appHost {
	t.Helper()
	modules := npm(t)
	server := serveHTTP(t, config)
	source, err := filepath.Abs(filepath.Join("app", "host.js"))
	if err != nil {
		t.Fatal(err)
	}
	bundle := exec.Command(filepath.Join(modules, ".bin", "esbuild"), source, "--bundle", "--format=esm",
		"--log-level=warning")
	bundle.Env = append(os.Environ(), "NODE_PATH="+modules)
	script, err := bundle.Output()
	if err != nil {
		t.Fatalf("esbuild: %v", err)
	}
	sandbox := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Security-Policy", policy(t, r.URL.Query().Get("csp")))
		http.ServeFile(w, r, filepath.Join("app", "sandbox.html"))
	}))
	t.Cleanup(sandbox.Close)
	mux := http.NewServeMux()
	// Its transport is its own: other tests close connections of the default one as their servers end.
	mux.Handle("/mcp", &httputil.ReverseProxy{FlushInterval: -1, Transport: &http.Transport{},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(server) // its Host, too
			r.Out.Header.Del("Origin")
		}})
	mux.HandleFunc("/host.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = w.Write(script)
	})
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, `<!doctype html><link rel="icon" href="data:,"><body data-sandbox=%q><div id="views"></div><script type="module" src="host.js"></script>`, sandbox.URL+"/")
	})
	front := httptest.NewServer(mux)
	t.Cleanup(func() { front.CloseClientConnections(); front.Close() })
	h := &appHost{page: open(t, front.URL+"/", "light", desktop)}
	// A dialog's button in a frame of another origin: Chromium says so, and focuses it all the same when it
	// opens.
	h.mayFail = "Blocked autofocusing"
	h.until("the host", `"host" in window`)
	return h
}

// call lets the host call a tool and show its view.
func (h *appHost) call(tool, arguments string, told bool) {
	h.t.Helper()
	h.frame = 0
	eval[bool](h.page, fmt.Sprintf("host.call(%q, %s, %t).then(() => true)", tool, arguments, told))
	frames := send(h.page, cdppage.GetFrameTree, cdp.Empty{}).FrameTree
	for len(frames.ChildFrames) > 0 {
		frames = frames.ChildFrames[0]
	}
	world := send(h.page, cdppage.CreateIsolatedWorld,
		cdppage.CreateIsolatedWorldParams{FrameID: frames.Frame.ID})
	h.frame = int(world.ExecutionContextID)
}

// in evaluates an expression in the view.
func in[T any](h *appHost, expression string) (value T) {
	h.t.Helper()
	r := send(h.page, runtime.Evaluate,
		runtime.EvaluateParams{Expression: expression, ContextID: runtime.ExecutionContextID(h.frame),
			ReturnByValue: new(true), AwaitPromise: new(true)})
	if r.ExceptionDetails != nil {
		h.t.Fatalf("%.200s: %+v", expression, r.ExceptionDetails)
	}
	if err := json.Unmarshal(r.Result.Value, &value); err != nil {
		h.t.Fatalf("%.200s: %v", expression, err)
	}
	return value
}

// sees waits until an expression is true in the view.
func (h *appHost) sees(what, expression string) {
	h.t.Helper()
	for begin := time.Now(); !in[bool](h, expression); time.Sleep(20 * time.Millisecond) {
		if time.Since(begin) > limit {
			h.picture(filepath.Join(os.TempDir(), "runnel-browser-failed.png"))
			h.t.Fatalf("%s does not come\n%.3000s", what, in[string](h, "document.body.innerText"))
		}
	}
}

// The command of build waits for the file GATEFILE before it ends.
const appTools = `
tools:
  build:
    command: [sh, -c, 'seq -f "line %.0f of the output" 1000; until [ -e "$GATE" ]; do sleep 0.1; done; echo the last line', "{{what}}"]
    input: {what: {type: string}}
    env: {GATE: GATEFILE}
  serve:
    shell: 'for i in $(seq 1 6000); do echo "step $i"; sleep 0.1; done'
`

// The official AppBridge shows the view in a sandbox of another origin. It finds the plain call that its host
// makes, follows it to its end, changes its colours with the host's, cancels and runs again, in both eras,
// and whether the host names the tool or not.
func TestAppBridge(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pin  string
		told bool
	}{"2025-11-25": {"", true}, "2026-07-28": {"2026-07-28", true}, "without toolInfo": {"", false}} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "2025-11-25" {
				t.Skip("one of them is enough")
			}
			t.Parallel()
			gate := filepath.Join(t.TempDir(), "gate")
			h := openHost(t, strings.Replace(appTools, "GATEFILE", gate, 1))
			pin, _ := json.Marshal(c.pin)
			names := eval[[]string](h.page, fmt.Sprintf("host.connect(%s)", pin))
			if list := strings.Join(names, " "); !strings.Contains(list, "build") ||
				!strings.Contains(list, "view_output") {
				t.Errorf("tools: %s", list)
			}
			h.call("build", `{"what": "all"}`, c.told)
			h.sees("output while the call runs", shown("line "))
			if eval[bool](h.page, "host.result !== undefined") {
				t.Error("the call had ended")
			}
			if err := os.WriteFile(gate, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			h.sees("the last line", shown("the last line"))
			h.sees("the end", status+`.includes("completed")`)
			h.until("the result", `host.result?.content[0].text.includes("the last line")`)
			if eval[float64](h.page, "host.sized ?? 0") < 100 {
				t.Error("the view does not say how high it is")
			}

			light := in[string](h, `getComputedStyle(document.body).backgroundColor + getComputedStyle(document.body).color`)
			eval[bool](h.page, `host.theme("dark").then(() => true)`)
			h.sees("other colours", fmt.Sprintf(`getComputedStyle(document.body).backgroundColor + getComputedStyle(document.body).color !== %q`, light))

			h.call("serve", `{}`, c.told)
			h.sees("its output", shown("step 3"))
			in[bool](h, `document.getElementById("cancel").click() ?? true`)
			h.sees("the question", `document.getElementById("sure").open`)
			in[bool](h, `document.querySelector("#sure [data-close=yes]").click() ?? true`)
			h.sees("the cancellation", status+`.includes("cancelled")`)
			h.until("the result", "host.result?.isError === true")
			in[bool](h, `document.getElementById("again").click() ?? true`)
			h.sees("the new run", status+`.includes("running")`)
			h.sees("its output", shown("step 2"))
			in[bool](h, `document.getElementById("cancel").click() ?? true`)
			h.sees("the question", `document.getElementById("sure").open`)
			in[bool](h, `document.querySelector("#sure [data-close=yes]").click() ?? true`)
			h.sees("the cancellation", status+`.includes("cancelled")`)
			eval[bool](h.page, "host.leave().then(() => true)")
		})
	}
}

// A command's output stays text in a host, too.
func TestAppIsText(t *testing.T) {
	t.Parallel()
	h := openHost(t, "tools:\n  evil: {command: [printf, '<img src=x onerror=\"parent.postMessage(1, String.fromCharCode(42))\"><script>parent.postMessage(2,\"*\")</script>\\nthe end\\n']}\n")
	eval[[]string](h.page, "host.connect()")
	eval[bool](h.page, `addEventListener("message", e => { if (typeof e.data === "number") window.caught = e.data }) ?? true`)
	h.call("evil", "{}", true)
	h.sees("the end", `document.body.innerText.includes("the end")`)
	if n := in[int](h, `document.querySelectorAll("#canvas img, #canvas script").length`); n > 0 ||
		eval[bool](h.page, "window.caught !== undefined") {
		t.Errorf("%d elements, caught %v", n, eval[any](h.page, "window.caught ?? null"))
	}
}
