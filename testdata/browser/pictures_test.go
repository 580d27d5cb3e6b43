package browser

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

var (
	pictures = flag.String("pictures", "",
		"`directory` for the pictures in the README; none are taken without it")
	gallery = flag.String("gallery", "",
		"`directory` for pictures of the view in all its states, to be looked at; none are taken without it")
)

const scene = `
tools:
  test:
    description: Run the tests
    progress: '\[(\d+)/(\d+)\]'
    input: {packages: {type: string, default: ./...}, fast: {type: string, default: ""}}
    shell: |
      pause=0.35; [ -n "$fast" ] && pause=0.0$fast
      n=0
      for p in rpc rpc/http rpc/mcp partials partials/tracker tasks tasks/logs tasks/nats tasks/redis tasks/sqlite tools tools/command tools/config \
          tools/process tools/schema tools/text tools/upstream tools/view internal/cli internal/serve internal/term internal/trace internal/hosts main; do
        n=$((n+1))
        if [ -z "$fast" ] && [ $n = 10 ]; then sleep 6; fi
        printf '\033[2m[%d/24]\033[0m === RUN   %s\n' $n "$p"
        sleep $pause
        if [ "$fast" = 3 ] && [ $n = 8 ]; then printf '\033[1;31m--- FAIL\033[0m  %s  \033[31mserver_test.go:41: two answers to one request\033[0m\n' "$p"; exit 1; fi
        printf '        \033[32m--- PASS\033[0m  %s \033[2m(0.%d1s)\033[0m\n' "$p" $n
        if [ $((n % 7)) = 0 ]; then printf '        \033[33mskipped\033[0m   %s: needs a server, which is not here\n' "$p"; fi
      done
      sleep 600
  build:
    description: Build it
    shell: 'echo "compiled 214 packages"; sleep 0.4'
  deploy:
    description: Copy it to the hosts
    shell: 'echo "host-2: connection refused"; exit 1'
`

// The pictures in the README: make pictures.
func TestPictures(t *testing.T) {
	if *pictures == "" {
		t.Skip("no directory for them is named")
	}
	u := start(t, strings.Replace(scene, "      sleep 600\n", "      [ -n \"$fast\" ] || sleep 600\n", 1))
	for _, fast := range []string{"5", "6", "3", "5", "4", "7", "3", "6", "5"} {
		u.call("test", "fast="+fast)()
	}
	p := open(t, u.url, "light", size{1180, 800})
	u.call("test")
	p.until("the run on top", `list.tasks.length === 10`)
	p.openTask("test")
	p.until("output", shown("[2/24]"))
	p.click("#cancel")
	p.click("#sure [data-close=yes]")
	p.until("the cancelled run", status+`.includes("cancelled")`)
	u.call("deploy")()
	u.call("build")()
	p.click("#again")
	p.until("the tests go on after a silence", shown("[19/24]"))
	eval[chromedp.Void](p, "document.activeElement.blur()")
	for _, scheme := range []string{"light", "dark"} {
		p.look(scheme, size{1180, 800})
		time.Sleep(500 * time.Millisecond) // until the list has been drawn with it
		webp := send(p, cdppage.CaptureScreenshot,
			cdppage.CaptureScreenshotParams{Format: "webp", Quality: new(int64(85))}).Data
		if len(webp) > 200<<10 {
			t.Errorf("the picture has %d bytes", len(webp))
		}
		if err := os.WriteFile(filepath.Join(*pictures, scheme+".webp"), webp, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// The view in all its states, for a person who judges it.
func TestGallery(t *testing.T) {
	if *gallery == "" {
		t.Skip("no directory for them is named")
	}
	u := start(t, strings.Replace(scene, "      sleep 600\n", "      [ -n \"$fast\" ] || sleep 600\n", 1)+
		`  huge:
    description: Write a large log
    shell: 'seq -f "%07.0f the quick brown fox jumps over the lazy dog" 1 1000000'
`)
	p := open(t, u.url, "light", desktop)
	take := func(name string, s size) {
		t.Helper()
		for _, scheme := range []string{"light", "dark"} {
			p.look(scheme, s)
			time.Sleep(500 * time.Millisecond) // until all has been drawn with it
			png := send(p, cdppage.CaptureScreenshot, cdppage.CaptureScreenshotParams{Format: "png"}).Data
			if err := os.WriteFile(filepath.Join(*gallery, name+"-"+scheme+".png"), png, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		p.look("light", desktop)
	}
	p.until("the tools", `document.querySelectorAll("#tools li").length === 4`)
	take("empty", desktop)
	take("empty-phone", phone)
	u.call("test")
	p.until("the run", `list.tasks.length === 1`)
	p.openTask("test")
	p.until("output", shown("[8/24]"))
	take("running", desktop)
	take("running-phone", phone)
	u.call("test", "fast=3")()
	p.until("the second run", `list.tasks.length === 2 && ended(list.tasks[0].status)`)
	p.openTask("test")
	p.until("the failed run", status+`.includes("failed")`)
	take("failed", desktop)
	take("failed-phone", phone)
	u.call("huge")()
	p.until("the large log", `list.tasks.length === 3 && ended(list.tasks[0].status)`)
	p.openTask("huge")
	p.until("its end", status+`.includes("completed")`)
	take("huge", desktop)
	for _, many := range []int{300, 10_000} {
		var calls strings.Builder
		calls.WriteString(`{"jsonrpc":"2.0","id":"open","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"tasks":{}},` +
			`"clientInfo":{"name":"claude-code","version":"1"}}}` + "\n" +
			`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n")
		for i := range many {
			call := fmt.Sprintf(`"echo","arguments":{"text":"call %d"}`, i)
			if i%7 == 0 {
				call = fmt.Sprintf(`"fail","arguments":{"message":"no. %d"}`, i)
			}
			fmt.Fprintf(&calls, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%s,"task":{}}}`+"\n", i, call)
		}
		cmd := u.command("serve", "--selftest", "--drain", "-1", "--max-tasks", "20000", "--max-in-flight",
			"20000", "--log-level", "error")
		cmd.Stdin = strings.NewReader(calls.String())
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		p.until("all of them", fmt.Sprintf(`list.tasks.length > %d && !list.cursor`, many))
		p.openTask("echo")
		take(fmt.Sprintf("%d-tasks", many), desktop)
	}
}
