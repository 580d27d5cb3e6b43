package browser

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// A state of 10,000 tasks: all come into the list, only the rows in sight into the document, and a new task
// appears on top.
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
	cmd := u.command("serve", "--selftest", "--drain", "-1", "--max-tasks", "20000", "--max-in-flight",
		"20000", "--log-level", "error")
	cmd.Stdin = strings.NewReader(calls.String())
	if out, err := cmd.Output(); err != nil || strings.Contains(string(out), `"error"`) {
		t.Fatalf("%v\n%.1000s", err, out)
	}
	t.Logf("%d tasks were made in %v", many, time.Since(begun).Round(100*time.Millisecond))

	begun = time.Now()
	p := open(t, u.url, "light", desktop)
	p.until("the first page", `list.tasks.length >= 50`)
	t.Logf("the list is shown %v after the browser was started", time.Since(begun).Round(10*time.Millisecond))
	eval[chromedp.Void](p, watchFrames)
	p.until("all of them", fmt.Sprintf(`list.tasks.length === %d`, many))
	t.Logf("all %d are listed after %v; meanwhile %+v ms", many, time.Since(begun).Round(10*time.Millisecond),
		eval[stalls](p, "longest"))

	eval[chromedp.Void](p, watchFrames)
	inDocument := 0
	for share := range 20 { // all over the list
		eval[chromedp.Void](p, fmt.Sprintf(`(e => { e.scrollTop = e.scrollHeight * %d / 20; })(document.getElementById("list"))`, share))
		p.until("rows in sight", `(box => [...document.querySelectorAll("#tasks li")].some(e => { const y = e.getBoundingClientRect().top; return y > 100 && y < box.bottom; }))(document.getElementById("list").getBoundingClientRect())`)
		inDocument = max(inDocument, eval[int](p, `document.querySelectorAll("#tasks li").length`))
	}
	if inDocument > 40 {
		t.Errorf("%d rows are in the document", inDocument)
	}
	filter := func(words, want string) {
		t.Helper()
		eval[chromedp.Void](p, fmt.Sprintf(`(e => { e.value = %q; e.oninput(); })(document.getElementById("words"))`, words))
		p.until("what has "+words, fmt.Sprintf(`document.querySelector("#chips button").textContent === %q`,
			want))
	}
	for range 2 {
		filter("call 77", "all 280")
		filter("", "all 10,000")
	}
	p.click("#chips button:nth-child(2)")
	p.until("that none is running",
		`document.querySelectorAll("#tasks li").length === 0 && !document.getElementById("none").hidden`)
	p.click("#chips button:nth-child(1)")
	t.Logf("scrolled and filtered: at most %d rows in the document, %+v ms", inDocument,
		eval[stalls](p, "longest"))
	t.Logf("a listing of the newest takes %.0f ms",
		eval[float64](p, `(async () => { const begun = performance.now(); await door.call("view_tasks", {}); return performance.now() - begun; })()`))
	for range 2 { // what has a result and no output
		p.openTask("echo")
		p.until("the result", `/^call \d+$/.test(document.getElementById("result").textContent)`)
	}
	for range 2 { // a task in the middle is deleted while it is in sight
		eval[chromedp.Void](p, `(e => { e.scrollTop = e.scrollHeight / 2; })(document.getElementById("list"))`)
		p.until("its row", `[...list.items.values()].some(item => list.tasks.indexOf(item.task) > 1000)`)
		id := eval[string](p, `[...list.items.values()].find(item => list.tasks.indexOf(item.task) > 1000).task.taskId`)
		if err := u.command("tasks", "rm", id).Run(); err != nil {
			t.Fatal(err)
		}
		p.until("that it is dropped", fmt.Sprintf(`!list.tasks.some(task => task.taskId === %q)`, id))
	}
	begun = time.Now()
	u.call("broken")()
	p.until("the new one on top", `list.tasks[0].tool === "broken"`)
	t.Logf("a new task is listed %v after its call", time.Since(begun).Round(10*time.Millisecond))
}
