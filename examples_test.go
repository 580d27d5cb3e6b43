package main

import (
	"os"
	"os/exec"
	"path/filepath"
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
