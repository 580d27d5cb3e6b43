package artifacts_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"runnel/rpc/mcp"
	"runnel/tasks/run"
	"runnel/tools"
	"runnel/tools/artifacts"
	"runnel/tools/config"
	"runnel/tools/secrets"
	"runnel/tools/toolstest"
)

// maker is a tool that makes files, as a command does.
type maker struct {
	dir   string
	rules *config.Artifacts
	make  func()
	id    string // of the last call's task
}

func (m *maker) Describe() mcp.Tool {
	return mcp.Tool{Name: "make", InputSchema: json.RawMessage(`{"type":"object"}`)}
}

func (m *maker) Call(ctx context.Context, in *tools.Call, _ *tools.Output) (*mcp.CallToolResult, error) {
	hidden, err := secrets.New([]string{"s3cret-value"}, nil)
	if err != nil {
		return nil, err
	}
	m.id = in.TaskID
	made := artifacts.Watch(m.dir, m.rules)
	defer made.Close()
	m.make()
	return &mcp.CallToolResult{Content: made.Collect(ctx, in, hidden)}, nil
}

// rules returns the rules of a config.
func rules(t *testing.T, text string) *config.Artifacts {
	t.Helper()
	c, err := config.Parse("", []byte("tools: {make: {command: [true], artifacts: "+text+"}}"))
	if err != nil {
		t.Fatal(err)
	}
	command := c.Tools["make"]
	if err := command.Complete(); err != nil {
		t.Fatal(err)
	}
	return command.Artifacts
}

// item is what tests read of a content item.
type item struct {
	Type, Text, Data, MimeType, URI, Name, Description string
	Size                                               int
}

func items(t *testing.T, content []mcp.ContentBlock) (list []item) {
	t.Helper()
	for _, c := range content {
		var i item
		if err := json.Unmarshal(c, &i); err != nil {
			t.Fatal(err)
		}
		list = append(list, i)
	}
	return list
}

// summary names the items: links by their names, texts by their text.
func summary(list []item) string {
	words := make([]string, len(list))
	for i, c := range list {
		switch c.Type {
		case "text":
			words[i] = c.Text
		case "resource_link":
			words[i] = c.Name
		default:
			words[i] = c.Type
		}
	}
	return strings.Join(words, "\n")
}

func write(t *testing.T, dir, name string, data []byte) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// stored returns what is kept of a file.
func stored(t *testing.T, runner *run.Runner, id, name string) string {
	t.Helper()
	set, err := runner.Files(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	f, err := set.Find(name)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	data, err := io.ReadAll(set.Reader(t.Context(), f))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func newRunner(t *testing.T) *run.Runner {
	r := run.NewRunner(run.Options{})
	t.Cleanup(r.Close)
	return r
}

// What is new or changed is kept; what was there before, is not. Secrets are masked in texts.
func TestWhatACallHasMade(t *testing.T) {
	dir, runner := t.TempDir(), newRunner(t)
	write(t, dir, "old.txt", []byte("old"))
	write(t, dir, "report/old.html", []byte("<html>old"))
	round := 0
	m := &maker{dir: dir, rules: rules(t, `["*.txt", "report/**/*.{html,json}"]`), make: func() {
		round++
		write(t, dir, fmt.Sprint("new", round, ".txt"), []byte("password s3cret-value\n"))
		write(t, dir, "report/deep/x y.json", fmt.Appendf(nil, `{"round":%d}`, round))
		write(t, dir, "report/old.html", fmt.Appendf(nil, "<html>round %d", round))
		write(t, dir, "node_modules/a/report.txt", nil)
		write(t, dir, "other.png", nil)
	}}
	for n := 1; n <= 2; n++ {
		got := items(t, toolstest.CallBy(t, runner, m, nil).Content)
		if want := fmt.Sprintf("new%d.txt\nreport/deep/x y.json\nreport/old.html", n); summary(got) != want {
			t.Fatalf("call %d:\n%s\nwant\n%s", n, summary(got), want)
		}
		if want := "runnel://tasks/" + m.id + "/files/report/deep/x%20y.json"; got[1].URI != want ||
			got[1].MimeType != "application/json" || got[1].Size != 11 {
			t.Errorf("%+v, want %s", got[1], want)
		}
		if got := stored(t, runner, m.id, fmt.Sprint("new", n, ".txt")); got != "password ***\n" {
			t.Errorf("%q", got)
		}
		if got, want := stored(t, runner, m.id, "report/deep/x y.json"),
			fmt.Sprintf(`{"round":%d}`, n); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	m.make = func() {}
	if got := toolstest.CallBy(t, runner, m, nil).Content; len(got) != 0 {
		t.Errorf("of nothing: %s", got)
	}
	if _, err := runner.Get(t.Context(), m.id); err == nil {
		t.Error("a call that has made nothing is kept")
	}
}

// A text in UTF-16 is searched for secrets, too, and one that is cut into pieces.
func TestSecretsInLongTexts(t *testing.T) {
	dir, runner := t.TempDir(), newRunner(t)
	long := strings.Repeat("x", 32<<10-6) + "s3cret-value" + strings.Repeat("ä€", 20<<10)
	wide := []byte{0xff, 0xfe}
	for _, r := range "a s3cret-value\n" {
		wide = append(wide, byte(r), 0)
	}
	m := &maker{dir: dir, rules: rules(t, "'*'"), make: func() {
		write(t, dir, "long", []byte(long))
		write(t, dir, "wide", wide)
	}}
	for range 2 {
		if got := summary(items(t, toolstest.CallBy(t, runner, m, nil).Content)); got != "long\nwide" {
			t.Fatal(got)
		}
		if got := stored(t, runner, m.id, "long"); got != strings.Replace(long, "s3cret-value", "***", 1) {
			t.Errorf("%d bytes of %d", len(got), len(long))
		}
		if got := stored(t, runner, m.id, "wide"); got != "\xff\xfea\x00 \x00*\x00*\x00*\x00\n\x00" {
			t.Errorf("%q", got)
		}
		_ = os.RemoveAll(filepath.Join(dir, "long"))
		_ = os.RemoveAll(filepath.Join(dir, "wide"))
	}
}

// picture returns a PNG of noise, which cannot be compressed, or of one colour.
func picture(t *testing.T, width, height int, noise bool) []byte {
	t.Helper()
	p := image.NewRGBA(image.Rect(0, 0, width, height))
	if noise {
		_, _ = rand.NewChaCha8([32]byte{}).Read(p.Pix)
	} else {
		for i := range p.Pix {
			p.Pix[i] = 0xff
		}
	}
	var out bytes.Buffer
	if err := png.Encode(&out, p); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// A picture that fits is shown as it is, a larger one is scaled down, and one that cannot be decoded safely is
// a link.
func TestPictures(t *testing.T) {
	dir, runner := t.TempDir(), newRunner(t)
	small, wide, noise := picture(t, 640, 480, false), picture(t, 4000, 1000, false),
		picture(t, 800, 600, true)
	bomb := bytes.Clone(small)
	copy(bomb[16:], []byte{0, 0, 0xff, 0xff, 0, 0, 0xff, 0xff}) // its header says 65535×65535
	sound := append([]byte("RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x44\xac\x00\x00\x88\x58\x01\x00\x02\x00\x10\x00data\x00\x00\x00\x00"), make([]byte, 64)...)
	m := &maker{dir: dir, rules: rules(t, `{files: ["*"], maxBytes: 64MiB}`), make: func() {
		write(t, dir, "1small.png", small)
		write(t, dir, "2wide.png", wide)
		write(t, dir, "3noise.png", noise)
		write(t, dir, "4bomb.png", bomb)
		write(t, dir, "5sound.wav", sound)
		write(t, dir, "6drawing.svg", []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`))
	}}
	for range 2 {
		got := items(t, toolstest.CallBy(t, runner, m, nil).Content)
		want := "image\n1small.png\nimage\n2wide.png\nimage\n3noise.png\n4bomb.png\naudio\n5sound.wav\n6drawing.svg"
		if summary(got) != want {
			t.Fatalf("got\n%s", summary(got))
		}
		if data, _ := base64.StdEncoding.DecodeString(got[0].Data); !bytes.Equal(data, small) ||
			got[0].MimeType != "image/png" {
			t.Error("a small picture has changed")
		}
		for i, most := range map[int]int{2: 1568, 4: 800} {
			data, _ := base64.StdEncoding.DecodeString(got[i].Data)
			size, _, err := image.DecodeConfig(bytes.NewReader(data))
			if err != nil || size.Width > most || !strings.Contains(got[i+1].Description, "pixels") {
				t.Errorf("%s: %+v, %v, %q", got[i+1].Name, size, err, got[i+1].Description)
			}
		}
		if stored(t, runner, m.id, "3noise.png") != string(noise) {
			t.Error("the file of a scaled picture is not the original")
		}
		for name := range map[string]bool{"1small.png": true, "2wide.png": true, "3noise.png": true,
			"4bomb.png": true, "5sound.wav": true, "6drawing.svg": true} {
			_ = os.Remove(filepath.Join(dir, name))
		}
	}
}

// Beyond the limits files are left out, and the result says so.
func TestLimits(t *testing.T) {
	dir, runner := t.TempDir(), newRunner(t)
	m := &maker{dir: dir, rules: rules(t, `{files: ["*"], max: 2, maxBytes: 1KiB}`), make: func() {
		for i := range 4 {
			write(t, dir, fmt.Sprint(i), bytes.Repeat([]byte{byte(i)}, 10+i%2*2000))
		}
	}}
	for range 2 {
		got := summary(items(t, toolstest.CallBy(t, runner, m, nil).Content))
		want := "0\n2\n[left out: \"1\": its 2010 bytes do not fit into what is left of 1KiB (artifacts.maxBytes)]\n[left out: 1 more: a result has at most 2 files (artifacts.max)]"
		if got != want {
			t.Errorf("got\n%s", got)
		}
		for i := range 4 {
			_ = os.Remove(filepath.Join(dir, fmt.Sprint(i)))
		}
	}
}
