package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// bash finds the words of the line without the package bash-completion, also those that readline has split at
// = and :.
func TestBashCompletionNeedsNoPackage(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	script := runCommand(t, "completion", "bash")
	script.is(t, exitFine, ".*__start_runnel.*", "")
	if strings.Contains(script.stdout, "_get_comp_words_by_ref") {
		t.Error("the script needs a function of bash-completion")
	}
	file := filepath.Join(t.TempDir(), "completion")
	if err := os.WriteFile(file, []byte(script.stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ line, words, want string }{
		{"runnel tasks li", `runnel tasks li`, "3 2 li tasks"},
		{"runnel call echo text=a:b", `runnel call echo text = a : b`, "4 3 text=a:b echo"},
		{"runnel call echo text= x", `runnel call echo text = x`, "5 4 x text="},
		{"runnel call ", `runnel call ""`, "3 2  call"},
	} {
		try := `. "$1"; COMP_LINE="$2"; COMP_WORDS=(` + c.words +
			`); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); __runnel_words; echo "${#words[@]} $cword $cur $prev"`
		for range 2 {
			out, err := exec.Command(bash, "--norc", "-c", try, "bash", file, c.line).CombinedOutput()
			if err != nil || strings.TrimSuffix(string(out), "\n") != c.want {
				t.Errorf("%q: %v, %q, want %q", c.line, err, out, c.want)
			}
		}
	}
}
