package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"runnel/rpc/mcp"
)

// Tests, builds and a browser run in the sandboxes that runnel init proposes for a new project, with the
// caches of the programs: each twice, the second time with what the first has left.
func TestProposedSandboxes(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles, and starts a browser")
	}
	t.Parallel()
	needSandbox(t)
	for _, c := range []struct {
		name, program string
		files         map[string]string
		tool, want    string
	}{
		{"go", "go", map[string]string{
			"go.mod": "module example.com/x\n\ngo 1.21\n",
			"x_test.go": "package x\n\nimport (\n\t\"net\"\n\t\"testing\"\n)\n\nfunc TestX(t *testing.T) {\n" +
				"\tl, err := net.Listen(\"tcp\", \"127.0.0.1:0\")\n\tif err == nil {\n\t\t_, err = net.Dial(\"tcp\", l.Addr().String())\n\t}\n" +
				"\tif err != nil {\n\t\tt.Fatal(err)\n\t}\n\tt.Log(t.TempDir())\n}\n",
		}, "test", "--- PASS: TestX"},
		{"npm", "npm", map[string]string{
			"package.json":      `{"name": "x", "version": "1.0.0", "scripts": {"test": "node test.js"}, "dependencies": {"dep": "file:dep"}}`,
			"package-lock.json": `{"name": "x", "version": "1.0.0", "lockfileVersion": 3, "requires": true, "packages": {"": {"name": "x", "version": "1.0.0", "dependencies": {"dep": "file:dep"}}, "dep": {"version": "1.0.0"}, "node_modules/dep": {"resolved": "dep", "link": true}}}`,
			"dep/package.json":  `{"name": "dep", "version": "1.0.0"}`,
			"dep/index.js":      `module.exports = "from dep";`,
			"test.js":           `console.log(require("dep"));`,
		}, "test", "from dep"},
		{"make", "cc", map[string]string{
			"Makefile": ".PHONY: test\ntest: x\n\t./x\nx: x.c\n\tcc -o x x.c\n",
			"x.c":      "#include <stdio.h>\nint main(void) { puts(\"made\"); return 0; }\n",
		}, "test", "made"},
		{"cargo", "cargo", map[string]string{
			"Cargo.toml": "[package]\nname = \"x\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
			"src/lib.rs": "#[test]\nfn adds() { assert_eq!(1 + 1, 2); }\n",
		}, "test", "test adds ... ok"},
		{"pytest", "pytest", map[string]string{
			"pyproject.toml": "[tool.pytest.ini_options]\n",
			"test_x.py":      "def test_x(tmp_path):\n    (tmp_path / 'a').write_text('x')\n",
		}, "test", "1 passed"},
		{"chromium", "chromium", map[string]string{
			"package.json": `{"name": "x", "scripts": {"test": "chromium --headless --no-sandbox --disable-gpu --user-data-dir=profile --dump-dom file://$PWD/page.html"}}`,
			"page.html":    "<p id=p></p><script>p.textContent = 'drawn ' + (1 + 1)</script>",
		}, "test", "drawn 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := exec.LookPath(c.program); err != nil {
				t.Skip(err)
			}
			dir := t.TempDir()
			for name, text := range c.files {
				file := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			// The home is that of the user who runs the test: its caches have what is needed.
			vars := append(os.Environ(), "XDG_STATE_HOME="+t.TempDir(), noConfig)
			proposing := exec.Command(builtProgram(t), "init", dir, "--file",
				filepath.Join(dir, "runnel.yaml"))
			proposing.Env = vars
			if out, err := proposing.CombinedOutput(); err != nil {
				t.Fatalf("runnel init: %v\n%s", err, out)
			}
			text, err := os.ReadFile(filepath.Join(dir, "runnel.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			_, entry, _ := strings.Cut(string(text), "\n  "+c.tool+":\n")
			_, value, found := strings.Cut(entry, "    sandbox: ")
			if !found {
				t.Fatalf("no sandbox is proposed:\n%s", text)
			}
			value, _, _ = strings.Cut(value, "\n")
			t.Log(value)
			if c.name == "npm" { // what fetches is left out of the sandbox: here it finds everything
				more := "  ci:\n    shell: npm ci --offline --no-audit --no-fund && npm test\n    sandbox: " +
					value + "\n"
				if err := os.WriteFile(filepath.Join(dir, "runnel.yaml"), append(text, more...),
					0o600); err != nil {
					t.Fatal(err)
				}
				c.tool = "ci"
			}
			cmd := exec.Command(builtProgram(t), "--config", filepath.Join(dir, "runnel.yaml"), "--state",
				"memory", "--sync-wait", "0")
			cmd.Env = vars
			w := newWitness(t, cmd)
			defer w.end()
			for range 2 {
				var result mcp.CallToolResult
				w.must(&result, "tools/call", map[string]any{"name": c.tool, "arguments": map[string]any{}})
				said := ""
				for _, block := range result.Content {
					text, _ := mcp.TextOf(block)
					said += text
				}
				if result.IsError || !strings.Contains(said, c.want) {
					t.Errorf("%s\n%s", value, said)
				}
			}
		})
	}
}
