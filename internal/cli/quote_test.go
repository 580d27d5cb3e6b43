package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"runnel/internal/serve"
	"runnel/internal/term"
	"runnel/rpc/mcp"
)

// A command that runnel shows can be pasted into a shell, even if a stranger has named the directory, the
// tool and its arguments.
func TestShownCommandsRunNoStrangersCode(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the test pastes into a POSIX shell; CI runs on one")
	}
	_, run := inHome(t)
	const hostile = "x$(touch PWNED)y `touch PWNED`;touch PWNED"
	if err := os.Mkdir(hostile, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(hostile)
	if err := os.WriteFile("runnel.yaml", []byte("tools: {a: {command: [echo]}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	project := filepath.Join("..", hostile)
	var said []string
	for range 2 {
		for _, args := range [][]string{
			{"tools"}, {"tasks", "list"}, {"doctor"}, {"config", "check", "runnel.yaml"}, {"init", project},
			{"init", filepath.Join(project, "nothing")},
			{"trust", filepath.Join(project, "nothing", "runnel.yaml")}, {"trust", project + "/x.yaml"},
			{"init", "--dry-run", project},
		} {
			o := run(args...)
			said = append(said, o.stdout, o.stderr)
		}
	}
	var out strings.Builder
	i := &invocation{Setup: serve.Setup{Stdout: &out}}
	i.target.command = []string{"server", hostile}
	if got, want := term.Quote("a", "[o=red|blue]", "", "it's"), `a '[o=red|blue]' '' it\'s`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	tool := &mcp.Tool{Name: hostile,
		InputSchema: []byte(`{"required":["a;touch PWNED"],"properties":{"a;touch PWNED":{"enum":["x|touch PWNED"]}}}`)}
	if err := i.printTool(tool); err != nil {
		t.Fatal(err)
	}
	said = append(said, out.String())
	shown := regexp.MustCompile(`(?m)\brunnel (trust|call) .*x.*PWNED.*$`).
		FindAllString(strings.Join(said, "\n"), -1)
	if len(shown) < 5 {
		t.Fatalf("the shown commands: %q", shown)
	}
	for _, line := range shown {
		cmd := exec.Command("sh", "-c", "runnel() { :; }\n"+line)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v %s", line, err, text)
		}
		if _, err := os.Stat("PWNED"); err == nil {
			t.Fatalf("a shell runs the code of a stranger: %s", line)
		}
	}
}
