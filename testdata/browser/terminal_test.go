package browser

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

var looks = flag.String("looks", "",
	"`directory` for pictures of terminals and files, to be looked at; none are taken without it")

const typed = `
tools:
  shell:
    shell: 'stty -echo; printf "ready\n漢字 \033[3;5Hplace\n"; while read -r line; do printf "<%s>\n" "$line"; done; echo ended'
    interactive: true
  vim: {command: [vi, notes.txt], interactive: true}
  plot:
    shell: 'mkdir -p out; cp pictures/* out/; echo a,b > out/data.csv; echo drawn'
    artifacts: ["out/*"]
`

// take takes pictures, light and dark, if a directory for them is named.
func (p *page) take(name string, sizes ...size) {
	p.t.Helper()
	if *looks == "" {
		return
	}
	for _, scheme := range []string{"light", "dark"} {
		for _, s := range sizes {
			p.look(scheme, s)
			time.Sleep(500 * time.Millisecond) // until all has been drawn with it
			png := send(p, cdppage.CaptureScreenshot, cdppage.CaptureScreenshotParams{Format: "png"}).Data
			file := name + "-" + scheme + map[bool]string{true: "-phone"}[s == phone] + ".png"
			if err := os.WriteFile(filepath.Join(*looks, file), png, 0o600); err != nil {
				p.t.Fatal(err)
			}
		}
	}
	p.look("light", desktop)
}

const screen = `document.getElementById("screen").textContent`

// A person types into the terminal of a task: into its screen, with keys and by pasting, and line by line;
// keys of the page do nothing there.
func TestTypeIntoATerminal(t *testing.T) {
	t.Parallel()
	u := start(t, typed)
	p := open(t, u.url, "light", desktop)
	p.until("the tools", `document.querySelectorAll("#tools li").length === 3`)
	for range 2 {
		p.until("the form's button", `document.querySelector("[aria-label='Run shell']")`)
		eval[chromedp.Void](p, `document.querySelector("[aria-label='Run shell']").click()`)
		p.click("#ask-run")
		p.until("the screen", `!document.getElementById("detail").hidden && `+screen+`.includes("place")`)
		if got := eval[string](p, screen); !strings.HasPrefix(got, "ready\n漢字\n    place\n \n") {
			t.Errorf("the screen is %q", got)
		}
		p.keysIn("#screen", "j", "c", "r", "\b", " ", "1", "\r")
		p.until("what was typed", screen+`.includes("<jc 1>")`)
		eval[chromedp.Void](p, `(() => {
			const data = new DataTransfer();
			data.setData("text", "one\ntwo\n");
			document.getElementById("screen").dispatchEvent(new ClipboardEvent("paste", {clipboardData: data, bubbles: true, cancelable: true}));
		})()`)
		p.until("what was pasted", screen+`.includes("<one>\n<two>\n")`)
		p.keysIn("#line", "a", " ", "l", "í", "n", "e", "\r")
		p.until("a line", screen+`.includes("<a líne>") && document.getElementById("line").value === ""`)
		p.take("shell", desktop, phone)
		if eval[bool](p, `document.getElementById("sure").open || document.getElementById("typing").hidden`) {
			t.Error("a key that was typed had another effect")
		}
		p.keysIn("#screen", "\t")
		if !eval[bool](p, `document.activeElement.id === "screen"`) {
			t.Error("Tab left the screen")
		}
		eval[chromedp.Void](p, `document.querySelector("[data-key='C-c']").click()`)
		p.until("its end", status+`.includes("failed") && document.getElementById("typing").hidden`)
		p.until("the last screen", screen+`.includes("<a líne>")`)
		eval[chromedp.Void](p, "history.back()")
		p.until("the tools again", `!document.getElementById("nothing").hidden`)
	}
}

// The files of a task are shown: pictures as they are, others as links that save them.
func TestFilesOfATask(t *testing.T) {
	t.Parallel()
	u := start(t, typed)
	pictures := filepath.Join(u.dir, "pictures")
	if err := os.Mkdir(pictures, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"light.webp", "dark.webp"} {
		picture, err := os.ReadFile(filepath.Join("pictures", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(pictures, name), picture, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	p := open(t, u.url, "light", desktop)
	saved := t.TempDir()
	send(p, browser.SetDownloadBehavior,
		browser.SetDownloadBehaviorParams{Behavior: "allow", DownloadPath: saved})
	for round := range 2 {
		u.call("plot")()
		p.until("the task in the list", fmt.Sprintf("list.tasks.length === %d", round+1))
		p.openTask("plot")
		p.until("its files", `document.querySelectorAll("#files li").length === 3`)
		p.until("the pictures", `[...document.querySelectorAll("#files img")].filter(i => i.complete && i.naturalWidth === 1180).length === 2`)
		p.take("files", desktop, phone)
		eval[chromedp.Void](p, `[...document.querySelectorAll("#files button")].find(b => b.textContent.endsWith("data.csv")).click()`)
		file := filepath.Join(saved, "data.csv")
		for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
			if got, err := os.ReadFile(file); err == nil && string(got) == "a,b\n" {
				break
			} else if time.Since(begin) > limit {
				t.Fatalf("round %d: the file is not saved: %q, %v", round, got, err)
			}
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		eval[chromedp.Void](p, "history.back()")
		p.until("the list alone", `document.getElementById("detail").hidden`)
	}
}

// In the page of a host a person types into the terminal of the call that they see, and sees the picture that
// another one has made: through the official AppBridge, in both eras.
func TestAppTypesAndShowsFiles(t *testing.T) {
	t.Parallel()
	pictures, err := filepath.Abs("pictures")
	if err != nil {
		t.Fatal(err)
	}
	for name, pin := range map[string]string{"2025-11-25": "", "2026-07-28": "2026-07-28"} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && pin != "" {
				t.Skip("one of them is enough")
			}
			t.Parallel()
			h := openHost(t, strings.ReplaceAll(typed, "pictures/*", pictures+"/*"))
			eval[[]string](h.page, fmt.Sprintf("host.connect(%q)", pin))
			for range 2 {
				h.call("shell", "{}", true)
				h.sees("the screen", screen+`.includes("place")`)
				in[int](h, `(() => {
					for (const key of ["a", "b", "Enter"]) document.getElementById("screen").dispatchEvent(new KeyboardEvent("keydown", {key, cancelable: true}));
					return 0;
				})()`)
				h.sees("what was typed", screen+`.includes("<ab>")`)
				in[int](h, `(document.querySelector("[data-key='C-c']").click(), 0)`)
				h.sees("its end", status+`.includes("failed") && document.getElementById("typing").hidden`)
				h.call("plot", "{}", true)
				h.sees("the pictures", `[...document.querySelectorAll("#files img")].filter(i => i.complete && i.naturalWidth === 1180).length === 2`)
				if n := in[int](h, `document.querySelectorAll("#files button").length`); n > 0 {
					t.Errorf("%d buttons save files, which a host does not let a page do", n)
				}
				h.take("app-files-"+name, desktop)
			}
		})
	}
}
