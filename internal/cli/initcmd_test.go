package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The proposal is shown, written, trusted and right; a file that is there stays.
func TestInit(t *testing.T) {
	_, run := inHome(t)
	run("init").is(t, exitFailure, "", `nothing in \. says how it is built or tested \(looked for Makefile, `)
	run("init", "nowhere").is(t, exitUsage, "", `nowhere is not a directory`)
	for name, text := range map[string]string{
		"go.mod":   "module x\n",
		"Makefile": "test: ## Run all tests\n\tgo test ./...\ndeploy:\n\ttouch deployed\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dry := run("init", "--dry-run")
	dry.is(t, exitFine, `# Proposed by runnel init from Makefile, go\.mod\..*`, "")
	if _, err := os.Stat("runnel.yaml"); err == nil {
		t.Fatal("--dry-run has written the file")
	}
	got := run("init")
	got.is(t, exitFine, `.*`, `(?s)wrote runnel.yaml, 5 tools; it is trusted until it changes.*Next: runnel tools`)
	if got.stdout != dry.stdout || read(t, "runnel.yaml") != dry.stdout {
		t.Errorf("shown\n%s\nwith --dry-run\n%s\nwritten\n%s", got.stdout, dry.stdout, read(t, "runnel.yaml"))
	}
	if !strings.Contains(got.stdout, "description: Run all tests\n") {
		t.Error(got.stdout)
	}
	run("config", "check").is(t, exitFine, `runnel\.yaml: fine, 5 tools\n.*`, "")
	run("trust", "--list").is(t, exitFine, `.*/runnel\.yaml\n`, "")
	run("call", "deploy").is(t, exitFailure, "",
		"(?s)not run: deploy must be confirmed by the user, .*--yes confirms")
	if _, err := os.Stat("deployed"); err == nil {
		t.Error("it was deployed without a question")
	}
	if err := os.WriteFile("runnel.yaml", []byte("tools: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run("init").is(t, exitFailure, "", `runnel\.yaml exists: runnel init --dry-run`)
	if got := read(t, "runnel.yaml"); got != "tools: {}\n" {
		t.Error(got)
	}
}

// The tools whose programs are not on this machine are named.
func TestInitNamesMissingPrograms(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, run := inHome(t)
	for name, text := range map[string]string{
		"pyproject.toml":   "[tool.pytest]\n[tool.ruff]\n",
		".venv/bin/pytest": "#!/bin/sh\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		run("init").is(t, exitFine, `.*`, `(?s)3 tools; it is trusted.*\n`+
			`The programs of these are not found here, and runnel doctor says where it looks: format, lint\n`)
		if err := os.Remove("runnel.yaml"); err != nil {
			t.Fatal(err)
		}
	}
}

// A proposal that is written elsewhere runs its commands in the project.
func TestInitOutput(t *testing.T) {
	_, run := inHome(t)
	if err := os.Mkdir("project", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("project/Makefile", []byte("where: ## Say where it runs\n\t@pwd\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	run("init", "project", "--file", "tools.yaml").
		is(t, exitFine, `(?s).*\n    dir: ".*/project"\n.*`,
			`(?s)wrote tools\.yaml, 1 tool;.*Next: runnel tools --config tools\.yaml, then runnel install --config tools\.yaml`)
	run("call", "where", "--config", "tools.yaml").is(t, exitFine, `(?s).*/project\n`, "")
	run("init", "project", "--file", "tools.yaml").is(t, exitFailure, "", `tools\.yaml exists`)
	run("init", "project", "--file", "project/other.yaml").
		is(t, exitFine, `(?s).*description: Say where it runs\n    command: \[make, where\]\n.*`,
			`wrote project/other\.yaml`)
	run("call", "where", "--config", "project/other.yaml").is(t, exitFine, `(?s).*/project\n`, "")
}
