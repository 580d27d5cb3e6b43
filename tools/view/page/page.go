package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"regexp"
	"sync"
)

//go:embed index.html style.css *.js
var sources embed.FS

// scripts are put together in this order: while a file is loaded, it uses files before it.
var scripts = []string{
	"dom.js", "door.js", "ansi.js", "rows.js", "log.js", "timeline.js", "history.js", "files.js", "terminal.js", "task.js",
	"tasks.js", "run.js", "main.js",
}

// comment matches a comment on lines of its own, which is left out of the page.
var comment = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^ *(//.*|/\*\*.*\*/)\n`)
})

// put returns the page in one piece, and the policy by which a browser runs nothing else.
var put = sync.OnceValues(func() (html []byte, policy string) {
	read := func(name string) []byte {
		text, err := sources.ReadFile(name)
		if err != nil {
			panic("internal error: " + err.Error())
		}
		return text
	}
	style := read("style.css")
	script := []byte("\"use strict\";\n")
	for _, name := range scripts {
		script = append(append(script, comment().ReplaceAll(read(name), nil)...), '\n')
	}
	html = bytes.Replace(read("index.html"), []byte("{{style}}"), style, 1)
	html = bytes.Replace(html, []byte("{{script}}"), script, 1)
	return html, "default-src 'none'; script-src " + hash(script) + "; style-src " + hash(style) +
		"; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
})

// HTML returns the page.
func HTML() []byte { html, _ := put(); return html }

// Policy returns the page's Content-Security-Policy for "runnel ui". In an MCP App, the host sets one.
func Policy() string { _, policy := put(); return policy }

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
