package hosts

import (
	"bufio"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// three are the hosts with which tools made of a model and of steps are tried.
var three = []string{"claude-code", "codex", "gemini"}

// findings is how many lines the model behind the tool review says.
const findings = 20

// reviewed is what it says.
func reviewed() string {
	var all strings.Builder
	for i := range findings {
		fmt.Fprintf(&all, "finding-%02d the loop never ends when the list is\n", i+1)
	}
	return strings.TrimSpace(all.String())
}

// provider starts a provider of models, the one of the example, and returns its URL. It says a word every
// 30 ms.
func provider(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "endpoint")
	build := exec.Command("go", "build", "-o", program, "./testdata/examples/model/endpoint")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(program, reviewed())
	printed, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	url, err := bufio.NewReader(printed).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(url)
}

// reviewConfig has a tool behind which a model writes.
func reviewConfig(url string) string {
	return `tools: {review: {description: Reviews a diff, model: {api: anthropic, url: "` + url + `",
  name: claude-sonnet-4-5, key: sk-of-the-provider, prompt: "Review this diff: {{diff}}"}, input: {diff: {type: string}}}}`
}

// reviews calls the tool twice, one call after the other.
func reviews(results []Result) []Call {
	if len(results) < 2 {
		return []Call{{"review", object{"diff": fmt.Sprintf("- for %d {", len(results))}}}
	}
	return nil
}

// review has a model behind a tool: the host's own reads all that it says.
func review(url string) Scenario {
	return Scenario{
		Name: "review", Config: reviewConfig(url),
		Play:  func(_ *Run, results []Result) []Call { return reviews(results) },
		Check: func(run *Run) { run.reads(0, reviewed()); run.reads(1, reviewed()) },
	}
}

// reviewSitting is the same as a person sees it.
func reviewSitting(url string) sitting {
	return sitting{
		name: "review", golden: true, tool: "review", hosts: three, config: reviewConfig(url),
		play: func(_ *seat, results []Result) []Call { return reviews(results) },
		do: func(s *seat) {
			shown := map[string]bool{}
			eventually(runLimit, func() bool {
				_, read := s.Model.Read()
				if screen := s.screen(); len(read) == 0 {
					shown[regexp.MustCompile(`finding-\d+`).FindString(screen)] = true
				}
				return len(read) > 0
			})
			s.Logf("the screen showed %d states of the answer while it was written", len(shown))
			// Every host shows nothing at first, and may show the end of the result before its model reads it.
			if s.Host.Terminal.Progress && len(shown) <= 2 {
				s.Errorf("the screen showed %v while the answer was written", shown)
			}
			s.waits(regexp.QuoteMeta(ended))
		},
		check: func(s *seat) { s.reads(0, reviewed()); s.reads(1, reviewed()) },
	}
}
