package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The examples compile, are as short as they claim, and do what they say.
func TestExamples(t *testing.T) {
	t.Parallel()
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

// README.md is true: its scripts and its pipe write what stands below them, its configs are right, hosts can be told and can start
// runnel as its snippets say, and its tool in Go is a server.
func TestReadme(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1)
	dir := t.TempDir()
	if err := os.Symlink(builtProgram(t), filepath.Join(dir, "runnel")); err != nil {
		t.Fatal(err)
	}
	for _, link := range regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(string(text), -1) {
		if _, err := os.Stat(link[1]); err != nil {
			t.Errorf("a link: %v", err)
		}
	}
	anchors := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
		anchors[strings.ReplaceAll(strings.ToLower(heading[1]), " ", "-")] = true
	}
	for _, link := range regexp.MustCompile(`\]\(#([^)]+)\)`).FindAllStringSubmatch(string(text), -1) {
		if !anchors[link[1]] {
			t.Errorf("no heading for #%s", link[1])
		}
	}
	changing := regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[0-9:.]+Z`) // ids and times
	args := regexp.MustCompile(`(?s)"?command"?\s*[:=]\s*"/usr/local/bin/runnel",?\s*"?args"?\s*[:=]\s*(\[[^\]]*\])`)
	env := append(environ(t), noConfig, "PATH="+dir+":"+searchPath, "RUNNEL_STATE="+filepath.Join(dir, "state"))
	tried := map[string]int{}
	for i, block := range blocks {
		switch kind, text := block[1], block[2]; {
		case kind == "sh" && (strings.HasPrefix(text, "printf") || strings.HasPrefix(text, "runnel call greet") || strings.HasPrefix(text, "id=")):
			cmd := exec.Command("bash", "-c", text)
			cmd.Env = env
			out, err := cmd.Output()
			got, want := changing.ReplaceAllString(string(out), "*"), changing.ReplaceAllString(blocks[i+1][2], "*")
			if err != nil || got != want {
				t.Errorf("%s\n%v\n%s\nwant\n%s", text, err, got, want)
			}
			tried["script"]++
		case kind == "sh" && strings.HasPrefix(text, "runnel install"):
			cmd := exec.Command("bash", "-ec", text)
			cmd.Dir = filepath.Dir(writeConfig(t, "tools: {hi: {command: [echo, hi]}}")[1])
			cmd.Env = env
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s\n%v\n%s", text, err, out)
			}
			tried["install"]++
		case kind == "yaml":
			if got := runClient(t, "", append([]string{"config", "check"}, writeConfig(t, text)...)...); got.code != exitFine {
				t.Errorf("%s\n%s", text, got.stderr)
			}
			tried["config"]++
		case args.MatchString(text):
			var words []string
			if err := json.Unmarshal([]byte(args.FindStringSubmatch(text)[1]), &words); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if words[0] != "wrap" {
				words = append([]string{"doctor"}, words...)
			}
			for n, word := range words {
				if strings.HasSuffix(word, "/runnel.yaml") {
					words[n] = writeConfig(t, "tools: {hi: {command: [echo, hi]}}")[1]
				}
			}
			if got := runClient(t, "", words...); got.code != exitFine {
				t.Errorf("%v: %+v", words, got)
			}
			tried["host"]++
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
	if tried["script"] != 3 || tried["config"] != 6 || tried["host"] != 2 || tried["install"] != 1 || tried["program"] != 1 {
		t.Errorf("tried %v", tried)
	}
}
