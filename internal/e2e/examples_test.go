package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"runnel/internal/manual"
)

// The examples compile, are as short as they claim, and do what they say.
func TestExamples(t *testing.T) {
	t.Parallel()
	const most = 30 // lines
	dir := t.TempDir()
	// Not all: two programs would have the name client.
	if out, err := exec.Command("go", "build", "-o", dir, "./testdata/examples/server", "./testdata/examples/client").
		CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"server", "client"} {
		text, err := os.ReadFile(filepath.Join("testdata", "examples", name, "main.go"))
		if n := strings.Count(string(text), "\n"); err != nil || n >= most {
			t.Errorf("%s has %d lines: %v", name, n, err)
		}
	}
	server := filepath.Join(dir, "server")
	out, err := exec.Command(filepath.Join(dir, "client"), "count", `{"To":3}`, server).CombinedOutput()
	if s := string(out); err != nil || !strings.HasPrefix(s, `[{"type":"text","text":"1\n`) ||
		!strings.HasSuffix(s, "error: <nil> gaps: 0\n") {
		t.Errorf("the client: %v\n%s", err, out)
	}

	cmd := exec.Command(filepath.Join("testdata", "examples", "partials.sh"), "count", "To=3", "--", server)
	if err := os.Symlink(builtProgram(t), filepath.Join(dir, "runnel")); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(environ(t), noConfig, "PATH="+dir+":"+searchPath)
	out, err = cmd.CombinedOutput()
	if s := string(out); err != nil || !strings.HasPrefix(s, "partial 0: 1") ||
		!strings.HasSuffix(s, "result: done\n") {
		t.Errorf("the script: %v\n%s", err, out)
	}

	state := t.TempDir()
	for _, version := range []string{"1.0", "1.1"} {
		cmd = exec.Command(filepath.Join("testdata", "examples", "steps", "release.sh"), version, "--yes")
		cmd.Env = append(environ(t), "PATH="+dir+":"+searchPath, "RUNNEL_STATE="+state)
		out, err = cmd.CombinedOutput()
		if want := "check: completed\npack: completed\nok: completed, answered yes\npublish: completed\n\npublish:\npublished " +
			version + ": "; err != nil || !strings.Contains(string(out), want) {
			t.Errorf("the steps: %v\n%s", err, out)
		}
	}
	// Without a terminal, and without --yes, it says how to answer.
	for answer, want := range map[string]string{"yes": "published 2.0: ", "no": "ok: completed, answered no\npublish: skipped"} {
		cmd = exec.Command(filepath.Join("testdata", "examples", "steps", "release.sh"), "2.0")
		cmd.Env = append(environ(t), "PATH="+dir+":"+searchPath, "RUNNEL_STATE="+state)
		said := &syncBuffer{}
		cmd.Stdout, cmd.Stderr = said, said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var how []string
		for deadline := time.Now().Add(watchdog); how == nil && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			how = regexp.MustCompile(`Publish 2\.0\? \(answer with: runnel (tasks) (answer) ([0-9a-f-]{36})\)`).
				FindStringSubmatch(said.String())
		}
		if how == nil {
			_ = cmd.Process.Kill()
			t.Fatalf("it does not say how to answer: %s", said)
		}
		if got := runClient(t, "", append(how[1:], answer, "--state", state)...); got.code != exitFine {
			t.Errorf("%+v", got)
		}
		if err := cmd.Wait(); err != nil || !strings.Contains(said.String(), want) {
			t.Errorf("%v\n%s", err, said)
		}
	}
}

// README.md and the manual are true: their scripts write what stands below them, their configs are right,
// hosts can be told and can start runnel as their snippets say, their tools in Go are servers, and their
// links lead somewhere.
func TestReadme(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("internal/manual/*.md")
	if err != nil {
		t.Fatal(err)
	}
	tried := map[string]int{}
	for _, page := range append(pages, "README.md", "CONTRIBUTING.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		checkLinks(t, page, string(text))
		tryBlocks(t, page, string(text), tried)
	}
	if want := map[string]int{"script": 6, "config": 19, "host": 3, "install": 1,
		"program": 2}; !maps.Equal(tried, want) {
		t.Errorf("tried %v, want %v", tried, want)
	}
}

// README is short enough to be read. What does not fit is in the manual, whose pages it names.
func TestReadmeIsShort(t *testing.T) {
	const most = 250 // lines
	text, err := os.ReadFile("README.md")
	if n := strings.Count(string(text), "\n"); err != nil || n > most {
		t.Errorf("README.md has %d lines, want %d at most: %v", n, most, err)
	}
	for _, page := range manual.Topics() {
		if !strings.Contains(string(text), "(internal/manual/"+page.Name+".md)") {
			t.Errorf("README.md does not name the page %s", page.Name)
		}
	}
}

// checkLinks looks for the file and the heading that each link of a page names.
func checkLinks(t *testing.T, page, text string) {
	for _, link := range regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]+))?\)`).FindAllStringSubmatch(text, -1) {
		file, anchor := page, link[2]
		if link[1] != "" {
			file = filepath.Join(filepath.Dir(page), link[1])
		}
		linked, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, syscall.EISDIR) {
			t.Errorf("%s: a link: %v", page, err)
		}
		found := anchor == ""
		for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).
			FindAllStringSubmatch(string(linked), -1) {
			found = found || strings.ReplaceAll(strings.ToLower(heading[1]), " ", "-") == anchor
		}
		if !found {
			t.Errorf("%s: %s has no heading for #%s", page, file, anchor)
		}
	}
}

// tryBlocks tries the blocks of code of a page, and counts them. A script that an output follows must print
// it; it finds the config above it, if there is one, as a runnel.yaml that is trusted.
func tryBlocks(t *testing.T, page, text string, tried map[string]int) {
	blocks := regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$").FindAllStringSubmatchIndex(text, -1)
	// Ids, times, durations.
	changing := regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[0-9:.]+Z|\d+(\.\d+)? s\b`)
	args := regexp.MustCompile(`(?s)"?command"?\s*[:=]\s*"/usr/local/bin/runnel",?\s*"?args"?\s*[:=]\s*(\[[^\]]*\])`)
	bin := t.TempDir()
	if err := os.Symlink(builtProgram(t), filepath.Join(bin, "runnel")); err != nil {
		t.Fatal(err)
	}
	config := "tools: {hi: {command: [echo, hi]}}"
	shell := func(script string) (stdout string, err error) {
		cmd := exec.Command("bash", "-c", script)
		cmd.Dir = filepath.Dir(writeConfig(t, config)[1])
		cmd.Env = append(environ(t), "PATH="+bin+":"+searchPath, "RUNNEL_STATE="+t.TempDir())
		trust := exec.Command(filepath.Join(bin, "runnel"), "trust")
		trust.Dir, trust.Env = cmd.Dir, cmd.Env
		if out, err := trust.CombinedOutput(); err != nil {
			t.Errorf("%s: runnel trust: %v\n%s", page, err, out)
		}
		out, err := cmd.Output()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return string(out), err
	}
	for i, at := range blocks {
		kind, block := text[at[2]:at[3]], text[at[4]:at[5]]
		output, hasOutput := "", false
		if i+1 < len(blocks) {
			next := blocks[i+1]
			hasOutput = strings.TrimSpace(text[at[1]:next[0]]) == ""
			output = text[next[4]:next[5]]
		}
		switch {
		case kind == "sh" && hasOutput:
			out, err := shell(block)
			got, want := strings.TrimSuffix(changing.ReplaceAllString(out, "*"), "\n"),
				strings.TrimSuffix(changing.ReplaceAllString(output, "*"), "\n")
			if err != nil || got != want {
				t.Errorf("%s:\n%s\n%v\n%s\nwant\n%s", page, block, err, got, want)
			}
			tried["script"]++
		case kind == "sh" && strings.HasPrefix(block, "runnel install claude-code"):
			if out, err := shell("set -e\n" + block); err != nil {
				t.Errorf("%s:\n%s\n%v\n%s", page, block, err, out)
			}
			tried["install"]++
		case kind == "yaml":
			config = block
			if got := runClient(t, "", append([]string{"config", "check"},
				writeConfig(t, block)...)...); got.code != exitFine {
				t.Errorf("%s:\n%s\n%s", page, block, got.stderr)
			}
			tried["config"]++
		case args.MatchString(block):
			var words []string
			if err := json.Unmarshal([]byte(args.FindStringSubmatch(block)[1]), &words); err != nil {
				t.Fatalf("%s: %v\n%s", page, err, block)
			}
			if words[0] != "wrap" {
				words = append([]string{"doctor"}, words...)
			}
			if got := runClient(t, "", words...); got.code != exitFine {
				t.Errorf("%s: %v: %+v", page, words, got)
			}
			tried["host"]++
		case kind == "go":
			source, program := filepath.Join(bin, "main.go"), filepath.Join(bin, "count")
			if err := os.WriteFile(source, []byte(block), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command("go", "build", "-o", program, source).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", page, err, out)
			}
			if got := runClient(t, "", "call", "count", "n=3", "--", program); got.code != exitFine ||
				got.stdout != "0\n1\n2\ndone" {
				t.Errorf("%s: the tool in Go: %+v", page, got)
			}
			tried["program"]++
		}
	}
}
