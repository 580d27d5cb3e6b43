package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"runnel/rpc/mcp"
)

// noise returns a PNG that cannot be compressed.
func noise(t *testing.T, width, height int) []byte {
	t.Helper()
	p := image.NewRGBA(image.Rect(0, 0, width, height))
	_, _ = rand.NewChaCha8([32]byte{}).Read(p.Pix) // never fails
	var out bytes.Buffer
	if err := png.Encode(&out, p); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// madeItem is an item of a result about files.
type madeItem struct {
	Type, Text, URI, Name, MimeType string
	Data                            []byte
	Size                            int64
	Meta                            map[string]string `json:"_meta"`
}

func madeItems(t *testing.T, r *mcp.CallToolResult) (list []madeItem) {
	t.Helper()
	for _, c := range r.Content {
		var i madeItem
		if err := json.Unmarshal(c, &i); err != nil {
			t.Fatal(err)
		}
		list = append(list, i)
	}
	return list
}

// readFile reads a file page by page, and the part of it after a byte.
func (w *witness) readFile(uri string, after int64) []byte {
	w.t.Helper()
	var all []byte
	for next := after; ; {
		var page struct {
			Contents []struct {
				Text string
				Blob []byte
				Meta struct {
					Next int64 `json:"runnel/next"`
					Size int64 `json:"runnel/size"`
				} `json:"_meta"`
			}
		}
		w.must(&page, "resources/read", map[string]any{"uri": fmt.Sprintf("%s?after=%d", uri, next)})
		c := page.Contents[0]
		all = append(append(all, c.Text...), c.Blob...)
		if c.Meta.Next >= c.Meta.Size {
			return all
		}
		if c.Meta.Next <= next {
			w.t.Fatalf("after %d comes %d", next, c.Meta.Next)
		}
		next = c.Meta.Next
	}
}

// A result carries the files that its command has made, in whatever way the call is answered, and they are read
// as resources, from any byte on, and over HTTP.
func TestArtifacts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	small, large := noise(t, 64, 48), noise(t, 700, 500)
	long := strings.Repeat("Zeile mit ä und €\n", 20<<10)
	for name, data := range map[string]string{"small": string(small), "large": string(large), "long": long} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const script = `cp small out.png; cp large large.png; cp long report.txt; echo made; exec sleep `
	config := fmt.Sprintf(`
tools:
  plot: {shell: '%s 0', dir: %s, artifacts: ["*.png", report.txt]}
  slow: {shell: '%s 0.3', dir: %[2]s, artifacts: ["*.png", report.txt], detach: never}
  apart: {shell: '%[1]s 0', dir: %[2]s, artifacts: ["*.png", report.txt], detach: always}
`, script, dir, script)
	w := startWitness(&witness{t: t, patience: watchdog, plain: true},
		programCommand(t, append(writeConfig(t, config),
			"--state", stateDir(t), "--sync-wait", "100ms", "--http", ":0", "--log-format", "json")...))
	front := &httpServer{}
	front.await(t, &w.log)
	base := strings.TrimSuffix(front.url, "/mcp")
	for range 2 {
		for _, tool := range []string{"plot", "slow", "apart"} {
			_, r := w.texts(tool, nil)
			items := madeItems(t, &r)
			for id := taskID(items[0].Text); !slices.ContainsFunc(items,
				func(i madeItem) bool { return i.Type == "resource_link" }); {
				_, r = w.texts("get_task_result", map[string]any{"task_id": id})
				if items = madeItems(t, &r); r.IsError {
					t.Fatalf("%s: %s", tool, r.Content)
				}
			}
			found := map[string]madeItem{}
			pictures := 0
			for _, i := range items {
				switch i.Type {
				case "image":
					pictures++
					if pictures == 2 && !bytes.Equal(i.Data, small) {
						t.Errorf("%s: the small picture has %d bytes, want %d", tool, len(i.Data), len(small))
					}
				case "resource_link":
					found[i.Name] = i
				}
			}
			if pictures != 2 || len(found) != 3 || found["report.txt"].Meta["runnel/sha256"] == "" {
				t.Fatalf("%s: %d pictures, %+v", tool, pictures, found)
			}
			for name, want := range map[string]string{"out.png": string(small), "large.png": string(large),
				"report.txt": long} {
				link := found[name]
				if link.Size != int64(len(want)) {
					t.Errorf("%s: %s has %d bytes, want %d", tool, name, link.Size, len(want))
				}
				if got := w.readFile(link.URI, 0); string(got) != want {
					t.Errorf("%s: read %d bytes of %s, want %d", tool, len(got), name, len(want))
				}
				// A range may begin inside a character.
				if got := w.readFile(link.URI, 1000); string(got) != want[1000:] && name != "report.txt" {
					t.Errorf("%s: read %d bytes of %s after 1000, want %d", tool, len(got), name,
						len(want)-1000)
				}
				get, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
					base+strings.TrimPrefix(link.URI, "runnel:/"), nil)
				if err != nil {
					t.Fatal(err)
				}
				answer, err := http.DefaultClient.Do(get)
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(answer.Body)
				_ = answer.Body.Close()
				if err != nil || answer.StatusCode != http.StatusOK || string(got) != want {
					t.Errorf("%s: downloaded %d bytes of %s, %d, %v", tool, len(got), name,
						answer.StatusCode, err)
				}
			}
			var list struct{ Resources []mcp.Resource }
			w.must(&list, "resources/list", struct{}{})
			if !slices.ContainsFunc(list.Resources,
				func(r mcp.Resource) bool {
					return r.URI == found["out.png"].URI &&
						r.MimeType == "image/png"
				}) {
				t.Errorf("%s: not listed: %+v", tool, list)
			}
			if slices.ContainsFunc(list.Resources,
				func(r mcp.Resource) bool { return strings.Contains(r.URI, "-files/") }) {
				t.Errorf("%s: the task that keeps the files is listed: %+v", tool, list)
			}
			for _, bad := range []string{found["out.png"].URI + "x",
				strings.Replace(found["out.png"].URI, "/files/out.png", "-files/log", 1),
				"runnel://tasks/x/files/out.png"} {
				if a := w.call("resources/read", map[string]any{"uri": bad}); a.Error == nil ||
					a.Error.Code != mcp.CodeResourceNotFound {
					t.Errorf("%s: %+v", bad, a)
				}
			}
		}
	}
	w.end()
}

// "runnel call --artifacts" saves the files of a result, below the directory whatever their names, and says so.
func TestCallSavesArtifacts(t *testing.T) {
	t.Parallel()
	dir, state := t.TempDir(), stateDir(t)
	picture := noise(t, 64, 48)
	if err := os.WriteFile(filepath.Join(dir, "picture"), []byte(base64.StdEncoding.EncodeToString(picture)),
		0o600); err != nil {
		t.Fatal(err)
	}
	flags := append(writeConfig(t,
		fmt.Sprintf("tools: {plot: {shell: 'mkdir -p report; base64 -d picture > report/p.png; ln -sf /etc/passwd report/passwd; echo made', dir: %s, artifacts: 'report/**'}}", dir)), "--state", state)
	for _, mode := range []string{"--no-task", "--task"} {
		for range 2 {
			saved := filepath.Join(t.TempDir(), "saved")
			got := runClient(t, "", append([]string{"call", "plot", mode, "--artifacts", saved}, flags...)...)
			if got.code != 0 || got.stdout != "made\n" ||
				!strings.Contains(got.stderr, filepath.Join(saved, "report/p.png")) {
				t.Errorf("%s: %+v", mode, got)
			}
			if left, _ := filepath.Glob(filepath.Join(saved, "report/.runnel-*")); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
			data, err := os.ReadFile(filepath.Join(saved, "report/p.png"))
			if err != nil || !bytes.Equal(data, picture) {
				t.Errorf("%s: %d bytes, %v", mode, len(data), err)
			}
			if got := runClient(t, "", append([]string{"call", "plot", mode},
				flags...)...); got.stdout != "made\n" ||
				!strings.Contains(got.stderr, "[left out: \"report/passwd\": it is a symbolic link]") ||
				!strings.Contains(got.stderr, "/files/report/p.png]") {
				t.Errorf("%s: %+v", mode, got)
			}
		}
	}
}
