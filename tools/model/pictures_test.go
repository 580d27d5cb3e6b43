package model

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"runnel/internal/modeltest"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tools/config"
	"runnel/tools/toolstest"
)

// dot is a picture of one pixel.
func dot(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 1, 1))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// shots is a tool that takes pictures, from a directory.
func shots(t *testing.T, api, dir string) *Model {
	t.Helper()
	m, err := New("ask", config.Command{Model: &config.Model{API: api, URL: "http://there", Name: "m-1", Prompt: "Compare {{shot}}{{more}}."},
		Input: config.Object(`{"shot":{"type":"string","format":"image"},"more":{"type":"array","items":{"type":"string","format":"image"}}}`)},
		config.Base{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A picture reaches every API as it takes one, from a data: URI and from a file.
func TestPictures(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.png"), dot(t), 0o600); err != nil {
		t.Fatal(err)
	}
	data := base64.StdEncoding.EncodeToString(dot(t))
	for api, want := range map[string]string{
		"anthropic": `{"source":{"data":"` + data + `","media_type":"image/png","type":"base64"},"type":"image"}`,
		"openai":    `{"image_url":{"url":"data:image/png;base64,` + data + `"},"type":"image_url"}`,
		"responses": `{"image_url":"data:image/png;base64,` + data + `","type":"input_image"}`,
		"ollama":    `"images":["` + data + `","` + data + `","` + data + `"]`,
	} {
		t.Run(api, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := shots(t, api, dir)
				for range 2 {
					provider := &modeltest.Endpoint{Answers: []modeltest.Answer{{Tokens: []string{"fine"}}}}
					stop := through(m, provider)
					called := toolstest.Call(t, m, map[string]any{"shot": "a.png",
						"more": []string{"data:image/png;base64," + data, filepath.Join(dir, "a.png")}})
					stop()
					text := provider.Requests()[0].Text
					if called.IsError || strings.Count(text, data) != 3 || !strings.Contains(text, want) ||
						!strings.Contains(text, "Compare (the picture shot)(the picture more).") {
						t.Errorf("%q, asked with %s", called.Text(), text)
					}
				}
			})
		})
	}
}

// What a model draws is the result's pictures, with links to the files of the task; what is none is named.
func TestPicturesOfAModel(t *testing.T) {
	small, large := dot(t), new(bytes.Buffer)
	noise := image.NewRGBA(image.Rect(0, 0, 600, 600))
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(noise.Pix)
	if err := png.Encode(large, noise); err != nil {
		t.Fatal(err)
	}
	for _, api := range []string{"openai", "responses"} {
		synctest.Test(t, func(t *testing.T) {
			m := parse(t, question(api))
			called, _ := ask(t, m, modeltest.Answer{Tokens: []string{"Here."}, Images: [][]byte{small, large.Bytes(), []byte("no picture")}})
			var kinds []string
			for _, item := range called.Content {
				kinds = append(kinds, rawjson.StringMember(item, "type"))
				if len(item) > mcp.MaxContent/2 {
					t.Errorf("%s: an item has %d bytes", api, len(item))
				}
			}
			if got := strings.Join(kinds, " "); called.IsError || got != "text image resource_link image resource_link text" ||
				!strings.HasPrefix(called.Text(), "Here.[left out: \"picture-3\"") && !strings.HasPrefix(called.Text(), "Here.[left out: picture-3") {
				t.Errorf("%s: %v %s %q", api, called.IsError, got, called.Text())
			}
			silent, _ := ask(t, m, modeltest.Answer{Images: [][]byte{small}})
			if item := silent.Content[0]; len(silent.Content) != 2 || rawjson.StringMember(item, "data") != base64.StdEncoding.EncodeToString(small) ||
				rawjson.StringMember(item, "mimeType") != "image/png" || silent.Text() != "" {
				t.Errorf("%s: %d items, %s", api, len(silent.Content), item)
			}
			many := make([][]byte, maxPictures+1)
			for i := range many {
				many[i] = append(bytes.Clone(small), byte(i))
			}
			if called, _ := ask(t, m, modeltest.Answer{Images: many}); !called.IsError || !strings.Contains(called.Text(), "too many pictures") {
				t.Errorf("%s: %q", api, called.Text())
			}
		})
	}
}

// A caller reads no other file than a picture below the directory, and nothing is asked with what is wrong.
func TestPicturesOfOthers(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	for file, text := range map[string][]byte{filepath.Join(outside, "a.png"): dot(t), filepath.Join(dir, "b.txt"): []byte("secret"),
		filepath.Join(dir, "large.png"): append(dot(t), make([]byte, maxPicture)...)} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(outside, "a.png"), filepath.Join(dir, "link.png")); err != nil {
		t.Fatal(err)
	}
	m := shots(t, "openai", dir)
	for value, want := range map[string]string{
		filepath.Join(outside, "a.png"):           "cannot be read from the tool's directory",
		"../" + filepath.Base(outside) + "/a.png": "cannot be read from the tool's directory",
		"link.png":                       "cannot be read from the tool's directory",
		"none.png":                       "cannot be read from the tool's directory",
		".":                              "not a regular file",
		"/dev/zero":                      "cannot be read from the tool's directory",
		"b.txt":                          "not a picture",
		"large.png":                      "too large",
		"data:image/png,x":               "not a data: URI in base64",
		"data:image/png;base64,!":        "its base64 cannot be read",
		"data:image/png;base64,c2VjcmV0": "not a picture",
	} {
		called := toolstest.Call(t, m, map[string]any{"shot": value})
		if !called.IsError || !strings.HasPrefix(called.Text(), `argument "shot": `) || !strings.Contains(called.Text(), want) ||
			strings.Contains(called.Text(), "secret") {
			t.Errorf("%.60q: %q, want %q", value, called.Text(), want)
		}
	}
	many := make([]string, maxPictures+1)
	for i := range many {
		many[i] = "data:image/png;base64," + base64.StdEncoding.EncodeToString(dot(t))
	}
	if called := toolstest.Call(t, m, map[string]any{"more": many}); !strings.Contains(called.Text(), "a call has at most 20 pictures") {
		t.Errorf("%q", called.Text())
	}
}
