package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"runnel/tools/config"
	"runnel/tools/process"
	"runnel/tools/sandbox"
)

// A command in a sandbox changes its own directory and its temporary one, and nothing else; it reads no
// secret, and its last line says what it may do; likewise under the sandbox of the whole config, which a tool
// can turn off.
func TestSandbox(t *testing.T) {
	program, err := process.ThisProgram()
	if err == nil {
		err = (&sandbox.Policy{}).Check(program)
	}
	if err != nil {
		t.Skip(err)
	}
	home := t.TempDir()
	dir, outside := filepath.Join(home, "project"), filepath.Join(home, "outside")
	for _, d := range []string{dir, outside, filepath.Join(home, ".ssh")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(home, ".ssh", "id"), []byte("a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	base := config.Base{Dir: dir, Vars: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home,
		"GITHUB_TOKEN=x"}}
	script := `exec 2>/dev/null
echo a >>here && echo b >"$TMPDIR/there" && echo "$TMPDIR"
echo c >"$HOME/outside/file" || echo refused
cat "$HOME/.ssh/id" || echo hidden
echo "token ${GITHUB_TOKEN-unset}"
exit 3`
	own, err := New("own", config.Command{Shell: script, Sandbox: &config.Sandbox{}}, base)
	if err != nil {
		t.Fatal(err)
	}
	base.Sandbox = &config.Sandbox{}
	inherited, err := New("inherited", config.Command{Shell: script}, base)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*Command{own, own, inherited, inherited} {
		result, _, _ := call(t, c, `{}`)
		said := contentText(t, result.Content[0])
		temporary, rest, _ := strings.Cut(said, "\n")
		if !strings.HasPrefix(rest, "refused\nhidden\ntoken unset\nexit code 3 after ") ||
			!strings.HasSuffix(rest, " [in a sandbox; allowed: changing "+dir+", and no network]") {
			t.Errorf("%s", said)
		}
		if _, err := os.Stat(temporary); !os.IsNotExist(err) {
			t.Errorf("the temporary directory %s: %v", temporary, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "here")); string(text) != "a\na\na\na\n" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	denied, err := New("t", config.Command{Shell: "echo x >../outside/file", Sandbox: &config.Sandbox{}},
		base)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		result, _, _ := call(t, denied, `{}`)
		said := contentText(t, result.Content[0])
		want := " blocked by the sandbox: write to " + outside + "/file; allowed: changing " + dir +
			", and no network"
		if !strings.HasSuffix(said, want) {
			t.Errorf("%s", said)
		}
	}
	off, err := New("t", config.Command{Shell: "echo x >../outside/file; echo $GITHUB_TOKEN",
		Sandbox: &config.Sandbox{Off: true}}, base)
	if err != nil {
		t.Fatal(err)
	}
	if result, _, _ := call(t, off, `{}`); contentText(t, result.Content[0]) != "x\n" || result.IsError {
		t.Errorf("without a sandbox: %s", contentText(t, result.Content[0]))
	}
}
