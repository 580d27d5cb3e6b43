package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The files that a command has made on a worker come with the result at the front, which reads them from the
// state, also when the worker has ended.
func TestArtifactsOfAWorker(t *testing.T) {
	t.Parallel()
	dir, picture := t.TempDir(), noise(t, 700, 500)
	if err := os.WriteFile(filepath.Join(dir, "picture"), picture, 0o600); err != nil {
		t.Fatal(err)
	}
	c := newCrew(t, fmt.Sprintf(`
tools:
  plot:
    shell: 'mkdir -p out && cp picture "out/$n.png" && echo "made by $WHO" > "out/$n.txt"'
    runs: builds
    dir: %q
    input: {n: {type: string}}
    artifacts: ["out/*"]
`, dir))
	worker, _ := c.work("one", "--class", "builds")
	front := exec.Command(c.program, c.config...)
	front.Env = c.env
	w := startWitness(&witness{t: t, patience: watchdog, plain: true}, front)
	links := map[string][]byte{}
	for n := range 2 {
		_, r := w.texts("plot", map[string]any{"n": fmt.Sprint(n)})
		items := madeItems(t, &r)
		for id := taskID(items[0].Text); len(items) == 1 && !r.IsError && id != ""; { // it was handed over
			_, r = w.texts("get_task_result", map[string]any{"task_id": id})
			items = madeItems(t, &r)
		}
		shown := 0
		for _, item := range items {
			switch {
			case item.Type == "image":
				shown++
			case item.Name == fmt.Sprintf("out/%d.png", n):
				links[item.URI] = picture
			case item.Name == fmt.Sprintf("out/%d.txt", n):
				links[item.URI] = []byte("made by one\n")
			}
		}
		if shown != 1 || len(links) != 2*(n+1) {
			t.Fatalf("%d pictures, %d links: %.3000s", shown, len(links), r.Content)
		}
	}
	if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = worker.Wait()
	for range 2 {
		for link, want := range links {
			if got := w.readFile(link, 1); !bytes.Equal(got, want[1:]) || !strings.HasPrefix(link, "runnel://tasks/") {
				t.Errorf("%s has %d bytes, want %d", link, len(got), len(want))
			}
		}
	}
	w.end()
}
