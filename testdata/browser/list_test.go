package browser

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// Without a task the page shows which hosts start runnel, as install has written it.
func TestHostsOfTheEmptyPage(t *testing.T) {
	t.Parallel()
	u := start(t, "tools: {other: {shell: 'echo other'}}")
	p := open(t, u.url, "light", desktop)
	p.until("the tool", `document.querySelectorAll("#tools li button").length === 1`)
	p.until("a list of hosts", `document.querySelectorAll("#hosts li").length > 0`)
	for _, host := range []string{"claude-code", "cursor"} {
		install := exec.Command(u.program, "install", host, "--scope", "project")
		install.Dir, install.Env = u.dir,
			append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(u.dir, "installed"))
		if out, err := install.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		p.click("#run")
		p.until(host, fmt.Sprintf(`[...document.querySelectorAll("#hosts li")].some(`+
			`e => e.textContent.toLowerCase().replace(" ", "-").startsWith(%q) && e.textContent.includes(%q))`, host, u.dir))
	}
}

// The page shows the sessions that hosts have open, also those that have called nothing yet, until they end in
// any way.
func TestSessionsOfTheEmptyPage(t *testing.T) {
	t.Parallel()
	u := start(t, "tools: {other: {shell: 'echo other'}}")
	u.call("other")() // makes the state
	p := open(t, u.url, "light", desktop)
	shown := func(what, is string) {
		t.Helper()
		p.until(what, `(document.getElementById("run").click(), [...document.querySelectorAll("#sessions li")].map(e => e.textContent)`+is+`)`)
	}
	for range 2 {
		host := u.command()
		in, err := host.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		host.Stderr = nil // it may log its end
		if err := host.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = in.Close(); _ = host.Process.Kill() })
		if _, err := fmt.Fprintf(in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",`+
			`"capabilities":{},"clientInfo":{"name":"codex-mcp-client","version":"0.169.0"}}}`+"\n"+
			`{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"+
			`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`+"\n"); err != nil {
			t.Fatal(err)
		}
		shown("the session", fmt.Sprintf(`.join().startsWith(%q)`, "Codex"+u.dir+" · since "))
		if err := host.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = host.Wait()
		shown("its end", `.length === 0`)
	}
}

// The list shows the arguments of each task, makes one row of equal runs, and its filters count.
func TestListOfTasks(t *testing.T) {
	t.Parallel()
	u := start(t, `
tools:
  check:
    input: {path: {type: string, default: .}}
    shell: 'echo checked; [ "$path" != bad ]'
  other:
    shell: 'echo other'
`)
	for _, path := range []string{"good", "good", "good", "bad", "bad", "good"} {
		u.call("check", "path="+path)()
	}
	u.call("other")()
	p := open(t, u.url, "light", desktop)
	rows := func(want ...string) {
		t.Helper()
		p.until(fmt.Sprintf("%q", want),
			fmt.Sprintf(`[...document.querySelectorAll("#tasks li")].map(e => e.querySelector(".tool").firstChild.textContent + " " + e.querySelector(".args").textContent + " " + e.querySelector(".more-runs").textContent).join("|") === %q`, strings.Join(want, "|")))
	}
	chips := func(want string) {
		t.Helper()
		p.until(want, fmt.Sprintf(`[...document.querySelectorAll("#chips button")].map(e => e.textContent).join(" ") === %q`, want))
	}
	choose := func(id, value string) {
		t.Helper()
		eval[chromedp.Void](p, fmt.Sprintf(`(e => { e.value = %q; e.oninput?.(); e.onchange?.(); })(document.getElementById(%q))`, value, id))
	}
	all := []string{"other  ×1", "check path=good ×1", "check path=bad ×2", "check path=good ×3"}
	rows(all...)
	chips("all 7 running 0 failed 2")
	for range 2 {
		p.click("#tasks li:nth-child(4) .more-runs")
		rows("other  ×1", "check path=good ×1", "check path=bad ×2", "check path=good ×3",
			"check path=good ×1", "check path=good ×1")
		p.click("#tasks li:nth-child(4) .more-runs")
		rows(all...)
		p.click("#chips button:nth-child(3)")
		rows("check path=bad ×2")
		choose("words", "GOOD")
		rows()
		chips("all 4 running 0 failed 0")
		p.click("#chips button:nth-child(1)")
		rows("check path=good ×4")
		choose("words", "")
		choose("tool", "other")
		rows("other  ×1")
		chips("all 1 running 0 failed 0")
		choose("tool", "")
		rows(all...)
	}
	if names := eval[string](p, `[...document.getElementById("tool").options].map(o => o.textContent).join(" ")`); names != "any tool check (6) other (1)" {
		t.Errorf("tools: %s", names)
	}
	if last := eval[string](p, `document.querySelectorAll("#tasks li")[2].querySelector(".last").textContent`); !strings.HasPrefix(last, "exit code 1") {
		t.Errorf("a failed task says %q", last)
	}
}

// An empty page offers the tools of the config, each with a form from its schema; what is left blank is not
// given.
func TestRunATool(t *testing.T) {
	t.Parallel()
	u := start(t, `
tools:
  plain:
    description: Needs nothing
    shell: 'echo plain'
  form:
    description: Needs much
    input:
      text: {type: string, description: What to say}
      n: {type: integer, minimum: 1, maximum: 9, default: 3}
      loud: {type: boolean}
      level: {type: string, enum: [low, high], default: high}
      words: {type: array, items: {type: string}}
    required: [text]
    shell: 'echo "$text"'
`)
	p := open(t, u.url, "light", desktop)
	p.until("the tools", `document.querySelectorAll("#tools li").length === 2`)
	if said := p.text("#nothing"); !strings.Contains(said, "Needs nothing") {
		t.Errorf("%q", said)
	}
	for range 2 {
		p.click(`[aria-label="Run form"]`)
		p.until("the form, with the focus in it",
			`document.getElementById("ask").open && document.activeElement === document.querySelector("#fields input, #fields select")`)
		p.click("#ask-run")
		p.until("what is missing", `document.getElementById("ask-wrong").textContent.includes("text")`)
		eval[chromedp.Void](p, `(() => { const fill = (name, value) => { const label = [...document.querySelectorAll("#fields label")].find(l => l.textContent === name); document.getElementById(label.htmlFor).value = value; };
			fill("text", "hello there"); fill("words", "one\ntwo words"); fill("n", "4"); })()`)
		p.click("#ask-run")
		p.until("the run", `!document.getElementById("ask").open && view.task && `+status+
			`.includes("completed") && `+shown("hello there"))
		if args := eval[string](p, `JSON.stringify(Object.fromEntries(Object.entries(view.task.arguments).sort()))`); args != `{"level":"high","n":4,"text":"hello there","words":["one","two words"]}` {
			t.Errorf("arguments %s", args)
		}
		p.click("#run")
		p.until("the tools again", `document.getElementById("nothing").offsetParent !== null`)
	}
	p.click(`[aria-label="Run plain"]`)
	p.click("#ask-run")
	p.until("the run without arguments",
		`!document.getElementById("ask").open && view.task && `+status+`.includes("completed") && `+
			shown("plain"))
}
