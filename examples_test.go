package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The examples compile, are as short as they claim, and do what they say.
func TestExamples(t *testing.T) {
	const most = 30 // lines
	dir := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", dir, "./testdata/examples/...").CombinedOutput(); err != nil {
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
	if s := string(out); err != nil || !strings.HasPrefix(s, `[{"type":"text","text":"1\n`) || !strings.HasSuffix(s, "error: <nil> gaps: 0\n") {
		t.Errorf("the client: %v\n%s", err, out)
	}

	cmd := exec.Command(filepath.Join("testdata", "examples", "partials.sh"), "count", "To=3", "--", server)
	if err := os.Symlink(builtProgram(t), filepath.Join(dir, "runnel")); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(environ(t), noConfig, "PATH="+dir+":"+searchPath)
	out, err = cmd.CombinedOutput()
	if s := string(out); err != nil || !strings.HasPrefix(s, "partial 0: 1") || !strings.HasSuffix(s, "result: done\n") {
		t.Errorf("the script: %v\n%s", err, out)
	}
}

// What README.md shows is so: its pipe writes what stands below it, its configs are right, and its tool in Go is a server.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1)
	dir := t.TempDir()
	if err := os.Symlink(builtProgram(t), filepath.Join(dir, "runnel")); err != nil {
		t.Fatal(err)
	}
	changing := regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[0-9:.]+Z`) // ids and times
	tried := map[string]int{}
	for i, block := range blocks {
		switch kind, text := block[1], block[2]; {
		case kind == "sh" && strings.HasPrefix(text, "printf"):
			cmd := exec.Command("sh", "-c", text)
			cmd.Env = append(environ(t), noConfig, "PATH="+dir+":"+searchPath)
			out, err := cmd.Output()
			got, want := changing.ReplaceAllString(string(out), "*"), changing.ReplaceAllString(blocks[i+1][2], "*")
			if err != nil || got != want {
				t.Errorf("the pipe: %v\n%s\nwant\n%s", err, got, want)
			}
			tried["pipe"]++
		case kind == "yaml":
			if got := runClient(t, "", append([]string{"config", "check"}, writeConfig(t, text)...)...); got.code != exitFine {
				t.Errorf("%s\n%s", text, got.stderr)
			}
			tried["config"]++
		case kind == "go":
			source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "count")
			if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command("go", "build", "-o", program, source).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if got := runClient(t, "", "call", "count", "n=3", "--", program); got.code != exitFine || got.stdout != "0\n1\n2\ndone" {
				t.Errorf("the tool in Go: %+v", got)
			}
			tried["program"]++
		}
	}
	if tried["pipe"] != 1 || tried["config"] != 2 || tried["program"] != 1 {
		t.Errorf("tried %v", tried)
	}
}
