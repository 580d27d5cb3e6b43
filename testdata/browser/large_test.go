package browser

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/systeminfo"
	"github.com/chromedp/chromedp"
)

// watchFrames notes the longest time between two frames and the longest task, from now on.
const watchFrames = `
	globalThis.longest = {frame: 0, task: 0, frames: 0};
	globalThis.watched ??= (() => { // once in a page
		new PerformanceObserver(list => {
			for (const e of list.getEntries()) longest.task = Math.max(longest.task, e.duration);
		}).observe({type: "longtask"});
		let last = performance.now();
		(function frame(now) {
			longest.frames++;
			longest.frame = Math.max(longest.frame, now - last);
			last = now;
			requestAnimationFrame(frame);
		})(last);
		return true;
	})();
`

type stalls struct{ Frame, Task, Frames float64 }

// A log of 100 MB is scrolled, by the wheel and by the bar, searched and followed: the page stays quick, and
// holds a window of it alone.
func TestLargeLog(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes 100 MB")
	}
	const lines, width = 1_000_000, 100
	u := start(t, fmt.Sprintf(`
tools:
  large:
    shell: 'seq -f "line %%07.0f %[2]s" 1 %[1]d'
  long:
    shell: "head -c 20000000 /dev/zero | tr '\\0' x"
`, lines, fmt.Sprintf("%0*d", width-14, 0)))
	p := open(t, u.url, "light", desktop)
	before := eval[float64](p, "performance.memory.usedJSHeapSize")
	begun := time.Now()
	u.call("large")
	p.openTask("large")
	p.until("the first lines", shown("line 0"))
	eval[chromedp.Void](p, watchFrames)
	p.until("the end of it", status+`.includes("completed") && `+shown(fmt.Sprintf("line %07d", lines)))
	t.Logf("100 MB were written and followed in %v; while they came: %+v ms",
		time.Since(begun).Round(100*time.Millisecond), eval[stalls](p, "longest"))

	eval[chromedp.Void](p, "longest = {frame: 0, task: 0, frames: 0}; gc = 0")
	log := eval[struct{ X, Y, Width, Height float64 }](p,
		`document.getElementById("log").getBoundingClientRect()`)
	begun = time.Now()
	for range 150 { // the wheel: some 30 rows each
		send(p, input.DispatchMouseEvent,
			input.DispatchMouseEventParams{Type: "mouseWheel", X: log.X + 100, Y: log.Y + 100, DeltaX: 0.001,
				DeltaY: -540})
	}
	p.until("rows in sight", inSight)
	wheel := eval[stalls](p, "longest")
	t.Logf("the wheel, 4,500 rows in %v: %+v ms", time.Since(begun).Round(time.Millisecond), wheel)

	eval[chromedp.Void](p, "longest = {frame: 0, task: 0, frames: 0}")
	begun = time.Now()
	for k := range 40 { // the bar: all over the log
		eval[chromedp.Void](p, fmt.Sprintf(`document.getElementById("log").scrollTop = document.getElementById("log").scrollHeight * %v`, float64(k*17%40)/40))
		p.until("rows in sight", inSight)
	}
	bar := eval[stalls](p, "longest")
	t.Logf("the bar, 40 places in %v: %+v ms", time.Since(begun).Round(time.Millisecond), bar)

	// Half of the way down stands the line in the middle.
	eval[chromedp.Void](p, `const l = document.getElementById("log"); l.scrollTop = (l.scrollHeight - l.clientHeight) / 2`)
	p.until("the middle", fmt.Sprintf(`(n => n > %d && n < %d)(Number(%s?.textContent.slice(5, 12)))`,
		lines*49/100, lines*51/100, firstInSight))
	p.find(fmt.Sprintf("line %07d ", 123456))
	p.until("a match far away", `document.querySelector(".row.match")?.textContent.startsWith("line 0123456 ")`)

	// While it is searched the page does not say yet that nothing is there.
	eval[chromedp.Void](p, `globalThis.said = []; new MutationObserver(() => said.push(document.getElementById("found").textContent)).observe(document.getElementById("found"), {childList: true, characterData: true, subtree: true})`)
	begun = time.Now()
	p.find("no such words")
	p.until("the end of the search", found+` === "no matches"`)
	time.Sleep(100 * time.Millisecond)
	said := eval[[]string](p, "said")
	t.Logf("100 MB are searched in %v: %q", time.Since(begun).Round(10*time.Millisecond), said)
	if n := len(said); n < 2 || !strings.HasPrefix(said[n-2], "searching… ") ||
		slices.Index(said, "no matches") != n-1 {
		t.Errorf("of the search it says %q", said)
	}
	p.keysIn("#log", "g")
	p.until("the beginning", shown("line 0000001 "))
	p.keysIn("#log", "G")
	p.until("the end", shown(fmt.Sprintf("line %07d ", lines)))

	t.Logf("memory of the tab's process: %.0f MB", tabMemory(p)/1e6)
	memory := eval[float64](p, "performance.memory.usedJSHeapSize") - before
	rows := eval[int](p, `document.querySelectorAll("#canvas .row").length`)
	t.Logf("memory of the page: %.1f MB more than at the beginning; %d rows in the document; %s", memory/1e6,
		rows, p.text("#where"))
	if memory > 40e6 || rows > 200 {
		t.Errorf("the page holds %.1f MB and %d rows", memory/1e6, rows)
	}

	u.call("long")() // one line of 20 MB
	eval[chromedp.Void](p, "longest = {frame: 0, task: 0, frames: 0}")
	p.openTask("long")
	p.until("its output", shown("xxx"))
	p.keysIn("#log", "G")
	p.until("rows in sight", inSight)
	line := eval[stalls](p, "longest")
	t.Logf("a line of 20 MB: %+v ms", line)
	for what, s := range map[string]stalls{"wheel": wheel, "bar": bar, "line": line} {
		if s.Task > 300 { // a busy machine takes its time; without a window it would be seconds
			t.Errorf("%s: the page was busy for %v ms", what, s.Task)
		}
	}
}

// firstInSight is the first row that the reader sees, inSight whether there is any.
const (
	firstInSight = `[...document.querySelectorAll("#canvas .row")].sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top).find(e => e.getBoundingClientRect().top >= document.getElementById("log").getBoundingClientRect().top)`
	inSight      = `(() => { const l = document.getElementById("log").getBoundingClientRect(), e = ` +
		firstInSight + `; return e !== undefined && e.getBoundingClientRect().top < l.top + 40; })()`
)

// tabMemory is what the process of the tab holds for itself, in bytes; 0 where that is not known.
func tabMemory(p *page) float64 {
	p.t.Helper()
	info, err := chromedp.CallBrowser(p, systeminfo.GetProcessInfo, cdp.Empty{})
	if err != nil {
		p.t.Fatal(err)
	}
	most := 0.0
	for _, process := range info.ProcessInfo {
		if process.Type != "renderer" { // there is one tab
			continue
		}
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", process.ID))
		for line := range strings.Lines(string(text)) {
			var kib float64
			if n, _ := fmt.Sscanf(line, "Private_Dirty: %f kB", &kib); n == 1 {
				most = max(most, kib*1024)
			}
		}
	}
	return most
}
