package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// interopTimeout is for a client that hangs, and for a slow registry.
const interopTimeout = 10 * time.Minute

const interopConfig = `
tasks: {pollInterval: 50ms}
tools:
  hello:
    command: [echo, "hello {{who}}"]
    input: {who: {type: string}}
    required: [who]
    structured: summary # its outputSchema is what the clients check
  must:
    command: [echo, ran]
    structured: summary
    task: required
`

// The official TypeScript SDK works with the program as it is: the one of the handshake era. Its schemas
// reject nothing of what the program says in any dialect.
func TestInteropTypeScript(t *testing.T) { interopNode(t, "ts", "client.mjs", "strict.mjs") }

// The official TypeScript client of 2026-07-28, which finds the era and falls back.
func TestInteropTypeScript2(t *testing.T) { interopNode(t, "ts2", "client.mjs") }

// That client gets in by a real authorization server that it finds by itself.
func TestInteropOAuth(t *testing.T) { interopNode(t, "ts2", "oauth.mjs") }

func interopNode(t *testing.T, folder string, scripts ...string) {
	t.Parallel()
	npmCI(t)
	dir := filepath.Join(interopDir, folder)
	for _, script := range scripts {
		interop(t, dir, "node", script)
	}
}

// The official Go SDK likewise, in both eras. It is a module of its own, so that the program does not depend
// on it.
func TestInteropGo(t *testing.T) {
	t.Parallel()
	interop(t, goDir, goClient(t, "."))
}

// mark3labs/mcp-go likewise.
func TestInteropMcpGo(t *testing.T) {
	t.Parallel()
	interop(t, goDir, goClient(t, "./mcpgo"))
}

// interopDir holds the clients and servers of others, each kind in a folder, and the packages that those in
// JavaScript share.
var interopDir = filepath.Join("testdata", "interop")

var goDir = filepath.Join(interopDir, "go")

// goClient builds a client in Go: "." is that of the official SDK.
func goClient(t *testing.T, folder string) string {
	t.Helper()
	client := filepath.Join(t.TempDir(), "client")
	build := exec.Command("go", "build", "-o", client, folder)
	build.Dir = goDir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the client cannot be built, which needs the Go module proxy once: %v\n%s", err, out)
	}
	return client
}

// interop runs a client, which starts the program itself.
func interop(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	config, err := filepath.Abs(writeConfig(t, interopConfig)[1])
	if err != nil {
		t.Fatal(err)
	}
	interopWith(t, builtProgram(t), config, dir, name, args...)
}

// interopWith runs a client of a program that it starts, or of a URL.
func interopWith(t *testing.T, program, config, dir, name string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), interopTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, append(args, program, config)...)
	cmd.Dir = dir
	cmd.Env = environ(t)
	cmd.WaitDelay = watchdog
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	t.Log(strings.TrimSpace(string(out)))
}

var npmLock sync.Mutex

// npmCI installs the packages of testdata/interop, unless they are installed already, and returns their
// folder.
func npmCI(t testing.TB) (modules string) { return npmCIIn(t, interopDir) }

// npmCIIn is npmCI for a folder.
func npmCIIn(t testing.TB, dir string) (modules string) {
	t.Helper()
	npmLock.Lock()
	defer npmLock.Unlock()
	modules, err := filepath.Abs(filepath.Join(dir, "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	lock, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(lock)
	want := hex.EncodeToString(sum[:])
	mark := filepath.Join(modules, ".installed-lock")
	if have, err := os.ReadFile(mark); err == nil && string(have) == want {
		return modules
	}
	ctx, cancel := context.WithTimeout(context.Background(), interopTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v: interop with the TypeScript SDK needs node 20 or later, npm, and an npm registry that can be reached\n%s", err, out)
	}
	if err := os.WriteFile(mark, []byte(want), 0o600); err != nil {
		t.Fatal(err)
	}
	return modules
}
