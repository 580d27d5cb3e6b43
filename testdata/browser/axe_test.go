package browser

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// axe finds what keeps people out (WCAG 2.2 AA and its best practices): in both colour schemes, wide and as
// narrow as a phone, in each state of the page.
func TestAccessibility(t *testing.T) {
	t.Parallel()
	axe, err := os.ReadFile(filepath.Join(npm(t), "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	u := start(t, `
tools:
  colours:
    shell: |
      for i in 0 1 2 3 4 5 6 7; do printf "\033[3${i}mcolour $i\033[0m \033[9${i}mbright $i\033[0m \033[1;3${i}mbold $i\033[0m\n"; done
      printf '\033[38;2;250;250;210mpale\033[0m \033[38;5;17mnavy\033[0m \033[38;2;128;128;128mgrey\033[0m\n'
      sleep 600
    input: {words: {type: array, items: {type: string}, default: [one, two]}}
  broken:
    shell: 'echo about to fail; exit 3'
  draws: {shell: 'echo ready; read -r x; echo "$x" > made.txt', interactive: true, artifacts: [made.txt]}
`)
	u.call("broken")()
	u.call("colours")
	p := open(t, u.url, "light", desktop)
	for _, scheme := range []string{"light", "dark"} {
		for name, s := range map[string]size{"wide": desktop, "phone": phone} {
			if testing.Short() && (scheme == "light") != (s == desktop) {
				continue
			}
			t.Run(scheme+" "+name, func(t *testing.T) {
				p.look(scheme, s)
				// The page opens as in a fresh tab, with the token that it has.
				p.do(chromedp.Navigate(strings.Split(u.url, "#")[0] + "?" + scheme + name))
				check := func(state string) {
					t.Helper()
					if wide := eval[[]string](p, `["html", "#list", "#task"].filter(s => (e => e.scrollWidth > e.clientWidth)(document.querySelector(s)))`); len(wide) > 0 {
						t.Errorf("%s: %q is wider than its place", state, wide)
					}
					eval[chromedp.Void](p, string(axe))
					violations := eval[[]string](p,
						`axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.flatMap(v => v.nodes.map(n => v.id + ": " + n.target + ": " + n.failureSummary)))`)
					for _, problem := range violations {
						t.Errorf("%s: %s", state, problem)
					}
				}
				p.until("the list", `document.querySelectorAll("#tasks .open").length >= 2`)
				check("the list")
				p.click("#run")
				p.until("the tools", `document.querySelectorAll("#tools li").length === 3`)
				check("the tools")
				p.click(`[aria-label="Run colours"]`)
				check("a form")
				p.click("#ask [data-close]")
				p.click(`[aria-label="Run draws"]`)
				p.click("#ask-run")
				p.until("a screen", screen+`.includes("ready") && !document.getElementById("typing").hidden`)
				check("a terminal")
				p.keysIn("#line", "x", "\r")
				p.until("a file", `document.querySelector("#files button")?.textContent === "made.txt"`)
				check("files")
				p.keys("\x1b")
				if s == phone {
					p.click("#back")
				}
				p.openTask("colours")
				p.until("output", shown("pale navy grey"))
				eval[chromedp.Void](p, `document.querySelectorAll("details").forEach(d => { d.open = true; })`)
				check("a task")
				p.find("bright")
				p.until("matches", found+`.includes("of")`)
				check("a search")
				p.click("#cancel")
				check("the question")
				p.click("#sure [data-close=no]")
				if s == phone {
					p.click("#back")
				}
				p.openTask("broken")
				p.until("its runs", `document.querySelectorAll("#runs-body tr").length === 1`)
				check("a failed task")
				eval[chromedp.Void](p, `document.getElementById("help").showModal()`)
				check("the keys")
			})
		}
	}
}
