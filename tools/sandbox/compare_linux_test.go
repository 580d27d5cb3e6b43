//go:build amd64 || arm64

package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// table is what make escapes makes: every attack in sandboxes of several makers, side by side.
const table = "testdata/escapes.md"

const aboutTable = `# Which attacks a sandbox refuses

Each attack is a program that does the thing named, as root. "yes": the program has done it. "-": it was refused. The first column shows
that the attacks are real. "Landlock" is what runnel does where a system lets users make no namespaces (Landlock and seccomp alone), and
"runnel" what it does elsewhere. "bwrap" is bubblewrap alone with the same policy (all read-only but one directory, a hidden one, the files in
it that run later read-only, all namespaces, no capabilities); "srt" is @anthropic-ai/sandbox-runtime with the same policy. A limit is part of
runnel's policy; the other two have none. Made by ` + "`make escapes`" +
	`, in tools/sandbox, which fails when a cell has changed.

`

// With RUNNEL_ESCAPES=update the table is written, with another value it is compared with the one that is
// there.
func TestCompare(t *testing.T) {
	if os.Getenv("RUNNEL_ESCAPES") == "" {
		t.Skip("make escapes sets RUNNEL_ESCAPES")
	}
	if os.Geteuid() != 0 {
		t.Skip("without a sandbox some attacks succeed for root alone")
	}
	needNamespaces(t)
	for _, program := range []string{"bwrap", "srt", "socat", "rg"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	text := bytes.NewBufferString(aboutTable)
	fmt.Fprint(text, "| attack | no sandbox | Landlock | runnel | bwrap | srt |\n|---|---|---|---|---|---|\n")
	for _, attack := range attacks {
		fmt.Fprintf(text, "| %s |", attack.name)
		for i, in := range []sandboxed{inNone, inLandlock, inNamespaces, inBubblewrap, inSandboxRuntime} {
			cell := "-"
			switch code, said := attackIn(t, attack.name, in); {
			case code == escaped:
				cell = "yes"
			case code != refusal:
				t.Errorf("%s, %d: exit code %d: %s", attack.name, i, code, said)
			}
			fmt.Fprintf(text, " %s |", cell)
		}
		text.WriteByte('\n')
	}
	if os.Getenv("RUNNEL_ESCAPES") == "update" {
		if err := os.WriteFile(table, text.Bytes(), 0o644); err != nil {
			t.Error(err)
		}
		return
	}
	before, err := os.ReadFile(table)
	if err != nil || !bytes.Equal(before, text.Bytes()) {
		t.Errorf("%s: %v\n%s", table, err, text)
	}
}

// inBubblewrap starts a command with bubblewrap alone, and the policy of the others.
func inBubblewrap(cmd *exec.Cmd, here place) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{
		"bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--bind", here.Mine, here.Mine,
		"--tmpfs", here.Hidden, "--unshare-all", "--cap-drop", "ALL", "--new-session", "--die-with-parent",
		"--chdir", here.Mine,
	}
	for _, name := range RunsLater {
		if path := here.Mine + "/" + name; exists(path) {
			args = append(args, "--ro-bind", path, path)
		}
	}
	cmd.Args = append(args, program)
	cmd.Path, err = exec.LookPath("bwrap")
	return errors.Join(err, inNone(cmd, here))
}

// inSandboxRuntime starts a command with the sandbox of Claude Code, and the policy of the others.
func inSandboxRuntime(cmd *exec.Cmd, here place) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	kept := []string{}
	for _, name := range RunsLater {
		if path := here.Mine + "/" + name; exists(path) {
			kept = append(kept, path)
		}
	}
	settings, err := json.Marshal(map[string]any{
		"network": map[string]any{"allowedDomains": []string{}, "deniedDomains": []string{}},
		"filesystem": map[string]any{
			"denyRead": []string{here.Hidden}, "allowWrite": []string{here.Mine}, "denyWrite": kept,
		},
	})
	if err != nil {
		return err
	}
	file := here.Outside + "/srt.json"
	if err := os.WriteFile(file, settings, 0o600); err != nil {
		return err
	}
	cmd.Args = []string{"srt", "--settings", file, "-c", program}
	cmd.Path, err = exec.LookPath("srt")
	cmd.Env = append(cmd.Env, "TMPDIR="+strings.TrimSuffix(os.TempDir(), "/"))
	return errors.Join(err, inNone(cmd, here))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
