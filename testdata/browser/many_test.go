package browser

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// A state of 10,000 tasks: the list is there at once, its filters and its older pages too, and a new task
// appears in it.
func TestTenThousandTasks(t *testing.T) {
	if testing.Short() {
		t.Skip("it makes 10,000 tasks")
	}
	const many = 10_000
	u := start(t, tools)
	var calls strings.Builder
	calls.WriteString(`{"jsonrpc":"2.0","id":"open","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"tasks":{}},"clientInfo":{"name":"many","version":"1"}}}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n")
	for i := range many {
		fmt.Fprintf(&calls, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"call %d"},"task":{}}}`+"\n", i, i)
	}
	begun := time.Now()
	cmd := u.command("serve", "--selftest", "--drain", "-1", "--max-tasks", "20000", "--max-in-flight", "20000", "--log-level", "error")
	cmd.Stdin = strings.NewReader(calls.String())
	if out, err := cmd.Output(); err != nil || strings.Contains(string(out), `"error"`) {
		t.Fatalf("%v\n%.1000s", err, out)
	}
	t.Logf("%d tasks were made in %v", many, time.Since(begun).Round(100*time.Millisecond))

	begun = time.Now()
	p := open(t, u.url, "light", desktop)
	rows := func(n int) string { return fmt.Sprintf(`document.querySelectorAll("#tasks li").length === %d`, n) }
	p.until("the first page", rows(50))
	t.Logf("the list is shown %v after the browser was started", time.Since(begun).Round(10*time.Millisecond))
	p.do(chromedp.SetValue(chromedp.CSS("#status"), "running"))
	eval[chromedp.Void](p, `document.getElementById("status").onchange()`)
	p.until("that none is running", rows(0))
	p.do(chromedp.SetValue(chromedp.CSS("#status"), ""))
	eval[chromedp.Void](p, `document.getElementById("status").onchange()`)
	p.until("all again", rows(50))

	t.Logf("a listing of the newest takes %.0f ms", eval[float64](p, `(async () => { const begun = performance.now(); await door.call("view_tasks", {}); return performance.now() - begun; })()`))
	begun = time.Now()
	u.call("broken")()
	p.until("the new one on top", `document.querySelector("#tasks .tool").textContent.startsWith("broken")`)
	t.Logf("a new task is listed %v after its call", time.Since(begun).Round(10*time.Millisecond))

	eval[chromedp.Void](p, watchFrames)
	begun = time.Now()
	for n := 100; n <= 1000; n += 50 {
		p.click("#more")
		p.until(fmt.Sprintf("%d tasks", n), rows(n))
	}
	t.Logf("1,000 of them are listed after %v; meanwhile %+v ms", time.Since(begun).Round(10*time.Millisecond), eval[stalls](p, "longest"))
}
