package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/creack/pty"
)

// doctor HOST starts what the host would start, in its environment, and says why it would not.
func TestDoctorOfAnInstalledHost(t *testing.T) {
	t.Parallel()
	program := builtProgram(t)
	home := t.TempDir()
	project := t.TempDir()
	run := func(args ...string) outcome {
		cmd := exec.Command(program, args...)
		cmd.Dir, cmd.Env = project, []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), noConfig}
		var stdout, stderr strings.Builder
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
			t.Fatal(err)
		}
		return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
	}
	run("doctor", "codex").is(t, exitFailure,
		"WRONG  host codex: no file of Codex names runnel as a server; add it with runnel install codex\n",
		"")
	if err := os.Mkdir(filepath.Join(home, ".codex"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		toml, want string
		code       int
	}{
		{"command = '" + program + "'\nargs = ['--tool', 'a=echo']\n",
			`ok     host codex, server x: it starts, 1 tool, \d+ ms; .*; unless a config or a flag says otherwise, maxResult 8 KiB, .*`, exitFine},
		{"command = '" + program + "'\n",
			`WRONG  host codex, server x: it starts, but serves no tools there: .* \(this one has none: runnel init proposes it\); .*`, exitFailure},
		{"command = '" + program + "'\nargs = ['wrap', '--url', 'http://127.0.0.1:9/mcp']\n",
			`WRONG  host codex, server x: .* no tools there: the server behind it has none or does not answer; .*`, exitFailure},
		{"command = '" + program + "'\nargs = ['--nonsense']\n",
			`WRONG  host codex, server x: cannot start: .*--nonsense.*`, exitFailure},
		{"command = '" + program + "'\nenabled = false\n",
			`WRONG  host codex, server x: .*config.toml has it switched off: switch it on in the host\n`,
			exitFailure},
		{"command = '/gone/runnel'\n",
			`WRONG  host codex, server x: .*config.toml names /gone/runnel, which is not a program: .*`,
			exitFailure},
		{"command = \n", `WRONG  host codex: .*config.toml: line 2: .*`, exitFailure},
	} {
		if err := os.WriteFile(filepath.Join(home, ".codex", "config.toml"),
			[]byte("[mcp_servers.x]\n"+c.toml), 0o600); err != nil {
			t.Fatal(err)
		}
		run("doctor", "codex").is(t, c.code, c.want, "")
	}
	// So may what only looks like one: nothing waits for it, and it does not fill the memory.
	if err := os.Symlink("/dev/zero", filepath.Join(project, ".mcp.json")); err != nil {
		t.Fatal(err)
	}
	run("doctor", "claude-code").is(t, exitFailure,
		`WRONG  host claude-code: \S*\.mcp\.json is not a regular file\n`, "")
	if err := os.Remove(filepath.Join(project, ".mcp.json")); err != nil {
		t.Fatal(err)
	}
	// A project's file may be anybody's: it is read, and nothing of it is started.
	if err := os.WriteFile(filepath.Join(project, ".mcp.json"),
		[]byte(`{"mcpServers": {"x": {"command": "`+program+
			`", "args": ["wrap", "--header", "X: secret", "--", "touch", "started"]}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	run("doctor", "claude-code").is(t, exitFine,
		`\?      host claude-code, server x: \S*\.mcp\.json is the project's, and starts \S*runnel with arguments .*: it was not tried\. .*`, "")
	if _, err := os.Stat(filepath.Join(project, "started")); err == nil {
		t.Error("it was started")
	}
	// What install has written is tried: it serves the directory's runnel.yaml, if the user trusts that.
	if err := os.WriteFile(filepath.Join(project, "runnel.yaml"), []byte("tools: {a: {command: [echo]}}\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, ".codex", "config.toml"),
		[]byte("[mcp_servers.x]\ncommand = '"+program+"'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run("doctor", "codex").is(t, exitFailure,
		`.* no tools there: .* \(this one: 1 tool, not trusted yet: read the file, then run runnel trust\); .*`, "")
	run("install", "cursor", "--scope", "project", "--config", "runnel.yaml").is(t, exitFine, ".*", ".*")
	run("doctor", "cursor").is(t, exitFine,
		`\?      host cursor, server runnel: .*: it was not tried\. .*`, "")
	run("trust").is(t, exitFine, ".*", ".*")
	for range 2 {
		run("doctor", "cursor").is(t, exitFine,
			`ok     host cursor, server runnel: it starts, 1 tool, \d+ ms; .*`, "")
	}
}

// On a terminal, install shows the hosts that are here, asks, and installs into those named.
func TestInstallAsks(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	for _, dir := range []string{".codex", ".cursor"} {
		if err := os.Mkdir(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	const question = "Install runnel into which of them? Names, or all: "
	const installed = `^Codex: .*\s+(.*\s+)*Cursor: ` // the first of them; then it is there already
	for answer, want := range map[string]string{"codex, cursor\n": installed, "all\n": installed,
		"codx\n": "did you mean codex", "\n": "^$"} {
		cmd := exec.Command(builtProgram(t), "install", "--tool", "a=echo hi")
		cmd.Env = []string{"HOME=" + home, "PATH=/nowhere", "TERM=dumb"}
		terminal, err := pty.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		piece := make([]byte, 4096)
		for answered := false; ; {
			n, err := terminal.Read(piece)
			said.Write(piece[:n])
			if !answered && strings.Contains(said.String(), question) {
				answered = true
				if _, err := terminal.WriteString(answer); err != nil {
					t.Fatal(err)
				}
			}
			if err != nil { // EIO: it has ended
				break
			}
		}
		_ = cmd.Wait()
		_ = terminal.Close()
		list, after, _ := strings.Cut(said.String(), question)
		if !regexp.MustCompile(`^codex +Codex +\S+/\.codex\S*\s+cursor +Cursor +\S+/\.cursor\S*\s+$`).
			MatchString(list) || !regexp.MustCompile(want).
			MatchString(strings.TrimSpace(strings.TrimPrefix(after,
				strings.ReplaceAll(answer, "\n", "\r\n")))) {
			t.Errorf("%q:\n%s", answer, said.String())
		}
	}
	for file, want := range map[string]string{".codex/config.toml": "a=echo hi",
		".cursor/mcp.json": "mcpServers"} {
		if text, err := os.ReadFile(filepath.Join(home, file)); err != nil ||
			!strings.Contains(string(text), want) {
			t.Errorf("%v\n%s", err, text)
		}
	}
}
