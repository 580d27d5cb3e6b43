package propose

import (
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// golang proposes the usual tools for a Go module.
func golang(d dir) (file string, tools []Tool) {
	file, _ = d.read("go.mod")
	if file == "" {
		return "", nil
	}
	packages := Input{"packages", "{type: array, items: " + operand + `, default: ["./..."]}`, false}
	tools = []Tool{
		{
			Name: "test", Description: "Run the Go tests of some packages",
			Command: []string{"go", "test", "-v", "-run={{run}}", "{{packages}}"},
			Inputs: []Input{packages, {"run",
				"{type: string, description: only tests that match this regular expression}", false}},
			Timeout: "30m",
		},
		{Name: "build", Description: "Compile all packages", Command: []string{"go", "build", "./..."},
			Timeout: "30m"},
		{Name: "vet", Description: "Look for mistakes in Go code",
			Command: []string{"go", "vet", "{{packages}}"}, Inputs: []Input{packages}, Timeout: "10m",
			ReadOnly: true},
	}
	if d.has(".golangci.yml", ".golangci.yaml", ".golangci.toml", ".golangci.json") {
		tools = append(tools, Tool{Name: "lint", Description: "Run the project's linters",
			Command: []string{"golangci-lint", "run", "{{packages}}"}, Inputs: []Input{packages},
			Timeout: "10m", ReadOnly: true})
	}
	return file, tools
}

// cargo proposes the usual tools for a Rust package or workspace.
func cargo(d dir) (file string, tools []Tool) {
	file, text := d.read("Cargo.toml")
	var manifest struct{ Package, Workspace map[string]any }
	if file == "" || toml.Unmarshal([]byte(text), &manifest) != nil ||
		manifest.Package == nil && manifest.Workspace == nil {
		return "", nil
	}
	run := func(words ...string) []string {
		words = append([]string{"cargo"}, words...)
		if manifest.Workspace != nil {
			words = append(words, "--workspace")
		}
		return words
	}
	return file, []Tool{
		{Name: "test", Description: "Run the tests, or those whose names contain a text",
			Command: append(run("test"), "{{filter}}"), Inputs: []Input{{"filter", operand, false}},
			Env: cargoEnv, Progress: cargoProgress, Timeout: "30m"},
		{Name: "build", Description: "Compile the project", Command: run("build"), Env: cargoEnv,
			Progress: cargoProgress, Timeout: "30m"},
		{Name: "clippy", Description: "Look for mistakes in Rust code",
			Command: run("clippy", "--all-targets"), Env: cargoEnv, Progress: cargoProgress, Timeout: "30m"},
		{Name: "fmt_check", Description: "List files that are not formatted",
			Command: []string{"cargo", "fmt", "--all", "--check"}, Timeout: "10m", ReadOnly: true},
	}
}

// inVenv returns a Python program's path in the project's virtual environment, or its name alone if that does
// not have it: no host activates the environment.
func inVenv(d dir, program string) string {
	for _, path := range []string{".venv/bin/" + program, "venv/bin/" + program,
		".venv/Scripts/" + program + ".exe", "venv/Scripts/" + program + ".exe"} {
		if d.has(path) {
			return path
		}
	}
	return program
}

// python proposes the tools that a Python project is configured for, run by its project manager.
func python(d dir) (file string, tools []Tool) {
	file, text := d.read("pyproject.toml", "setup.cfg", "setup.py")
	if file == "" {
		return "", nil
	}
	_, tox := d.read("tox.ini")
	_, pytestIni := d.read("pytest.ini")
	all := text + tox
	mentions := func(word string) bool { return regexp.MustCompile(`\b` + word + `\b`).MatchString(all) }
	var with []string
	switch {
	case d.has("uv.lock"):
		with = []string{"uv", "run"}
	case d.has("poetry.lock") || strings.Contains(text, "[tool.poetry]"):
		with = []string{"poetry", "run"}
	case d.has("pdm.lock"):
		with = []string{"pdm", "run"}
	}
	run := func(program string, words ...string) []string {
		if len(with) == 0 {
			program = inVenv(d, program)
		}
		return append(append(slices.Clone(with), program), words...)
	}
	if pytestIni != "" || mentions("pytest") || d.has("conftest.py", "tests/conftest.py") {
		tools = append(tools, Tool{
			Name: "test", Description: "Run the tests with pytest, all or some",
			Command: run("pytest", "{{args}}"),
			Inputs:  []Input{{"args", `{type: array, items: {type: string}, default: [], description: "paths, -k EXPRESSION and other options of pytest"}`, false}}, Progress: pytestProgress, Timeout: "30m",
		})
	}
	if d.has("ruff.toml", ".ruff.toml") || mentions("ruff") {
		tools = append(tools,
			Tool{Name: "lint", Description: "Look for mistakes in Python code with ruff",
				Command: run("ruff", "check"), Timeout: "10m", ReadOnly: true},
			Tool{Name: "format", Description: "Format the Python code with ruff",
				Command: run("ruff", "format"), Timeout: "10m"})
	}
	if d.has("mypy.ini") || mentions("mypy") {
		tools = append(tools, Tool{Name: "typecheck", Description: "Check types with mypy",
			Command: run("mypy", "{{paths}}"),
			Inputs:  []Input{{"paths", "{type: array, items: " + operand + `, default: ["."]}`, false}},
			Timeout: "10m", ReadOnly: true})
	}
	if tox != "" || strings.Contains(text, "[tool.tox") {
		tools = append(tools, Tool{Name: "tox", Description: "Run environments of tox, all or some",
			Command:  run("tox", "run", "-e={{env}}"),
			Inputs:   []Input{{"env", "{type: string, description: names separated by commas}", false}},
			Progress: pytestProgress, Timeout: "1h"})
	}
	if d.has("noxfile.py") {
		tools = append(tools, Tool{Name: "nox", Description: "Run sessions of nox, all or some",
			Command: run("nox", "--session={{session}}"), Inputs: []Input{{"session", one, false}},
			Progress: pytestProgress, Timeout: "1h"})
	}
	return file, tools
}
