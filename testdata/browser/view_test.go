package browser

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

const tools = `
tools:
  lines:
    shell: 'i=0; while [ $i -lt 10 ]; do i=$((i+1)); seq -f "line %.0f of the output" $((i*1000-999)) $((i*1000)); sleep 0.1; done; echo the last line'
  slow:
    shell: 'for i in $(seq 1 6000); do echo "step $i"; sleep 0.1; done'
  pause:
    shell: 'echo one; sleep 6; echo two; sleep 1'
  broken:
    shell: 'echo about to fail; exit 3'
`

// Somebody opens the page, follows a run to its end, searches it, cancels another one, and runs that again.
func TestFollowSearchCancel(t *testing.T) {
	t.Parallel()
	u := start(t, tools)
	begun := time.Now()
	p := open(t, u.url, "light", desktop)
	if at := eval[string](p, "location.href"); strings.Contains(at, "token") {
		t.Errorf("the token stays in the address bar: %s", at)
	}
	u.call("lines")
	p.openTask("lines")
	p.until("the first line", shown("line "))
	t.Logf("the first line is shown %v after the browser was started, runnel and the command among it",
		time.Since(begun).Round(time.Millisecond))
	p.until("the end of 10,000 lines", shown("the last line"))
	p.until("the end", status+`.includes("completed")`)
	if n := eval[int](p, `document.querySelectorAll("#canvas .row").length`); n > 200 {
		t.Errorf("%d rows are in the document", n)
	}

	p.find("line 77.7 of")
	p.until("ten matches", found+` === "1 of 10"`)
	p.until("the first match", `document.querySelector(".row.match")?.textContent === "line 7707 of the output"`)
	p.click("#next")
	p.until("the second match", `document.querySelector(".row.match")?.textContent === "line 7717 of the output"`)
	p.find("LINE 9999 ") // a plain word is marked where it stands
	p.until("the word", `document.querySelector("mark")?.textContent === "line 9999 "`)
	p.find("(")
	p.until("what is wrong with the pattern", found+`.includes("not a valid regular expression")`)
	p.find("no such words")
	p.until("nothing", found+` === "no matches"`)

	wait := u.call("slow")
	p.openTask("slow")
	p.until("output as it comes", shown("step 3"))
	p.click("#cancel")
	p.until("the question", `document.getElementById("sure").open`)
	p.click("#sure [data-close=no]")
	if s := eval[string](p, status); !strings.Contains(s, "running") {
		t.Errorf("it was not to be cancelled, and is %q", s)
	}
	p.click("#cancel")
	p.click("#sure [data-close=yes]")
	p.until("the cancelled task", status+`.includes("cancelled")`)
	wait() // another runnel has run it
	before := eval[string](p, "location.hash")
	p.click("#again")
	p.until("another task", fmt.Sprintf("location.hash !== %q", before))
	p.until("its output", status+`.includes("running") && `+shown("step 3"))
	p.click("#cancel")
	p.click("#sure [data-close=yes]")
	p.until("the cancelled task", status+`.includes("cancelled")`)

	u.call("broken")()
	p.openTask("broken")
	p.until("the failure", status+`.includes("failed")`)
	p.until("its run in the plot",
		`document.querySelectorAll("#plot rect.failed").length === 1 && document.querySelectorAll("#runs-body tr").length === 1`)
}

// The reader scrolls up while the task goes on: what is read stays in sight, until they follow again.
func TestReaderIsNotPushed(t *testing.T) {
	t.Parallel()
	u := start(t, `
tools:
  talk:
    shell: 'seq -f "old %.0f" 1 2000; for i in $(seq 1 6000); do echo "new $i, and some more words so that the size grows"; sleep 0.05; done'
`)
	p := open(t, u.url, "dark", desktop)
	u.call("talk")
	p.openTask("talk")
	p.until("output as it comes", shown("new 5"))
	p.keysIn("#log", "g")
	p.until("the beginning", shown("old 1"))
	eval[chromedp.Void](p, `document.getElementById("log").scrollTop = 18 * 500`)
	p.until("the middle", shown("old 501"))
	top := eval[float64](p, `document.getElementById("log").scrollTop`)
	wrote := eval[string](p, `document.getElementById("facts").textContent`)
	p.until("news", fmt.Sprintf(`document.getElementById("facts").textContent.match(/\d+ KiB/)[0] !== %q.match(/\d+ KiB/)[0]`, wrote))
	if now := eval[float64](p, `document.getElementById("log").scrollTop`); now != top ||
		!eval[bool](p, shown("old 501")) {
		t.Errorf("the reader was moved from %v to %v", top, now)
	}
	if eval[bool](p, `document.getElementById("follow").checked`) {
		t.Error("it still follows")
	}
	p.keysIn("#log", "f")
	p.until("the end again", `[...document.querySelectorAll("#canvas .row")].some(e => /^new \d\d/.test(e.textContent))`)
}

// Output is hostile: nothing of it becomes part of the page but its text and its colours.
func TestHostileOutput(t *testing.T) {
	t.Parallel()
	u := start(t, `
tools:
  "hostile":
    ansi: keep
    shell: |
      printf '<img src=x onerror="document.title=1"><script>document.title=2</script>\n'
      printf '\033]8;;https://example.com\033\\a link\033]8;;\033\\ \033]0;a title\007after\n'
      printf '\033[31mred\033[0m \033[1;38;2;1;2;3mdark\033[0m \033[2J\033[1;1Hstill here\n'
      printf 'invoice\342\200\256fdp.exe \342\201\246x\n'
      printf '\033[38;5;999999999999999999999;1;2;3;4;5;6;7mnumbers\033[m \033[38;2mshort\033[m \033[\033[\033]never closed\n'
      printf '10%%\r50%%\r100%% done\r\n'
      printf 'z'; for i in $(seq 1 300); do printf '\314\201'; done; printf ' marks\n'
      head -c 3000000 /dev/zero | tr '\0' 'x'; printf '\n'
      printf '\377\376 bytes\n'
      printf 'the end\n'
`)
	p := open(t, u.url, "light", desktop)
	u.call("hostile")()
	p.openTask("hostile")
	p.until("the end", shown("the end"))
	p.keysIn("#log", "g")
	p.until("the beginning", shown(`<img src=x onerror="document.title=1"><script>document.title=2</script>`))
	for _, want := range []string{"a link after", "red dark still here", "invoice\ufffdfdp.exe \ufffdx",
		"100% done"} {
		if !eval[bool](p, shown(want)) {
			t.Errorf("%q is not shown; there is\n%s", want, p.text("#canvas"))
		}
	}
	if n := eval[int](p, `document.querySelectorAll("#canvas img, #canvas script, #canvas a, #canvas iframe").length`); n != 0 {
		t.Errorf("%d elements come from the output", n)
	}
	if title := eval[string](p, "document.title"); title != "✓ hostile – runnel" {
		t.Errorf("the title is %q", title)
	}
	if n := eval[int](p, `Math.max(...[...document.querySelectorAll("#canvas .row")].map(e => e.textContent.length))`); n > 1000 {
		t.Errorf("a row has %d characters", n)
	}
	if !eval[bool](p, `getComputedStyle([...document.querySelectorAll("#canvas .f1")].find(e => e.textContent === "red")).color === "rgb(179, 38, 30)"`) {
		t.Error("red is not red")
	}
}

// The address without its token shows nothing, and says what to do; with another one, too.
func TestWithoutToken(t *testing.T) {
	t.Parallel()
	u := start(t, tools)
	const told = `document.getElementById("trouble").textContent.includes("the address that runnel ui prints")`
	plain, _, _ := strings.Cut(u.url, "#")
	p := open(t, plain, "light", desktop)
	p.until("what to do", told)
	p.mayFail = "401"
	p.do(chromedp.Navigate(plain + "?#token=" + strings.Repeat("A", 26)))
	p.until("what to do with a wrong token", told)
}

// A tab that is loaded again has its token; one whose runnel has gone says so, and goes on when it comes
// back.
func TestReload(t *testing.T) {
	t.Parallel()
	u := start(t, tools)
	p := open(t, u.url, "light", desktop)
	u.call("slow")
	p.openTask("slow")
	p.until("output", shown("step 2"))
	eval[chromedp.Void](p, "location.reload()")
	const reloaded = `performance.getEntriesByType("navigation")[0]?.type === "reload" && performance.getEntriesByName("first output").length > 0`
	p.until("the same task after a reload", reloaded+` && `+status+`.includes("running") && `+shown("step 4"))
	first := eval[float64](p, `performance.getEntriesByName("first output")[0].startTime`)
	t.Logf("%.0f ms from the reload to the first line, %.0f of them until the page was there", first,
		eval[float64](p, `performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd`))
}

// An error is shown in words: a task that is gone, and a runnel that is.
func TestTrouble(t *testing.T) {
	t.Parallel()
	u := start(t, tools)
	p := open(t, u.url, "light", desktop)
	p.until("the list", `document.getElementById("none").textContent.includes("No tasks yet")`)
	eval[chromedp.Void](p, `location.hash = "#00000000-0000-4000-8000-000000000000"`)
	p.until("that there is no such task", `document.getElementById("message").textContent.length > 10`)
	t.Log(p.text("#message"))
	p.mayFail = "ERR_CONNECTION_REFUSED"
	u.stop()
	p.until("that runnel is gone",
		`document.getElementById("trouble").textContent.includes("runnel does not answer")`)
}

// When the output of a run came is known after its end, to a page and a runnel that have not watched it.
func TestTimesOfAnEndedTask(t *testing.T) {
	t.Parallel()
	u := start(t, tools)
	u.call("pause", "--task")()
	p := open(t, u.url, "light", desktop)
	p.openTask("pause")
	p.until("its silence", `document.getElementById("silence").textContent.startsWith("Silent once, for ")`)
	if n := eval[int](p, `document.querySelectorAll("#timeline rect.out").length`); n != 2 {
		t.Errorf("its output came in %d columns", n)
	}
	t.Log(p.text("#silence"))
}

// A list of several pages is asked for by its first page, and new tasks come to its top.
func TestManyTasks(t *testing.T) {
	t.Parallel()
	u := start(t, tools)
	many := u.command("serve", "--selftest", "--max-tasks", "1000", "--drain", "-1")
	lines := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"
	for n := range 140 {
		lines += fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"%[1]d"},"task":{}}}`, n+1) + "\n"
	}
	many.Stdin, many.Stderr = strings.NewReader(lines), nil
	if err := many.Run(); err != nil {
		t.Fatal(err)
	}
	p := open(t, u.url, "light", desktop)
	p.until("all", `list.tasks.length === 140 && !list.cursor`)
	if n := eval[int](p, `document.querySelectorAll("#tasks .open").length`); n < 10 || n > 40 {
		t.Errorf("%d rows are in the document", n)
	}
	if age := p.text("#tasks .age"); !strings.Contains(age, ":") || !strings.Contains(age, " · ") {
		t.Errorf("the list says of a task %q, want when it began and how long it took", age)
	}
	eval[chromedp.Void](p, `window.asked = []; window.real = window.fetch; window.fetch = (url, o) => { const {name, arguments: given} = JSON.parse(o.body).params; if (name === "view_tasks") asked.push(given.cursor ?? ""); return real(url, o); }`)
	p.until("some listings", `asked.length >= 3`)
	if n := eval[int](p, `asked.filter(cursor => cursor).length`); n > 0 {
		t.Errorf("%d listings are of older pages", n)
	}
	u.call("broken")()
	p.until("the new one at the top of all",
		`list.tasks.length === 141 && document.querySelector("#tasks .tool").textContent.includes("broken")`)
}

// An address that names no task, however odd, shows the list.
func TestOddAddress(t *testing.T) {
	t.Parallel()
	u := start(t, tools)
	p := open(t, u.url, "light", desktop)
	u.call("broken")()
	for _, hash := range []string{"#%zz", "#%", "#%E0%A4%A"} {
		eval[chromedp.Void](p, fmt.Sprintf("history.replaceState(null, '', %q), location.reload()", hash))
		p.until("the list at "+hash, `document.readyState === "complete" && location.hash === "`+hash+
			`" && document.querySelectorAll("#tasks .open").length === 1`)
	}
	p.openTask("broken")
	p.until("the task", status+`.includes("failed")`)
}

// Everything can be done without a mouse.
func TestKeyboardOnly(t *testing.T) {
	t.Parallel()
	u := start(t, tools)
	p := open(t, u.url, "light", desktop)
	u.call("broken")()
	u.call("slow")
	p.until("two tasks", `document.querySelectorAll("#tasks .open").length === 2`)
	focus := func(what, selector string) {
		t.Helper()
		for range 12 {
			if eval[bool](p, fmt.Sprintf("document.activeElement.matches(%q)", selector)) {
				return
			}
			p.keys("\t")
		}
		t.Fatalf("Tab does not reach %s", what)
	}
	focus("the list", "#tasks .open")
	p.keys("j", "k", "\r")
	p.until("the task, with the focus on its output",
		status+`.includes("running") && document.activeElement.id === "log"`)
	p.until("output", shown("step 3"))
	p.keys("/")
	p.until("the search", `document.activeElement.id === "pattern"`)
	// \b: to the driver a key and its character are two events.
	p.keys("\b", "s", "t", "e", "p", " ", "2", "\r")
	p.until("a match", `document.querySelector(".row.match")?.textContent === "step 2"`)
	p.keys("\x1b")
	p.until("the output", `document.activeElement.id === "log"`)
	p.keys("f")
	p.until("following", `document.getElementById("follow").checked`)
	p.keys("c")
	p.until("the question", `document.getElementById("sure").open && document.activeElement.dataset.close === "no"`)
	p.keys("\t", "\r")
	p.until("the cancelled task", status+`.includes("cancelled")`)
	p.keysIn("#log", "\x1b")
	p.until("the list", `document.activeElement.matches("#tasks .open[aria-current=true]")`)
	if !eval[bool](p, `matchMedia("(prefers-color-scheme: light)").matches && getComputedStyle(document.activeElement).outlineStyle !== "none"`) {
		t.Error("the focus cannot be seen")
	}
}

// A pause leaves no listener at its signal: following a task pauses several times a second, for as long as it
// is shown.
func TestPausesLeaveNothing(t *testing.T) {
	t.Parallel()
	p := open(t, start(t, tools).url, "light", desktop)
	left := eval[int](p, `(async () => {
		const {signal} = new AbortController(), {addEventListener, removeEventListener} = signal;
		let listeners = 0;
		signal.addEventListener = function(...args) { listeners++; addEventListener.apply(this, args); };
		signal.removeEventListener = function(...args) { listeners--; removeEventListener.apply(this, args); };
		for (let n = 0; n < 3; n++) await pause(1, signal);
		return listeners;
	})()`)
	if left != 0 {
		t.Errorf("%d listeners are left", left)
	}
}

// A screen reader hears the progress of each task, also after that of another one.
func TestProgressIsAnnouncedForEachTask(t *testing.T) {
	t.Parallel()
	p := open(t, start(t, tools).url, "light", desktop)
	said := eval[string](p, `(() => {
		const at50 = {status: "working", progress: {progress: 50, total: 100}};
		view.show("one");
		view.progress(at50);
		view.show("two");
		announce("");
		view.progress(at50);
		return document.getElementById("spoken").textContent;
	})()`)
	if said != "50 %" {
		t.Errorf("%q", said)
	}
}
