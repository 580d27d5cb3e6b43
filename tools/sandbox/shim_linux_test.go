//go:build amd64 || arm64

package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// run runs a script in a sandbox, in a directory that it may change, and returns its output and its end.
func run(t *testing.T, p Policy, namespaces bool, script string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	p.Write = append(p.Write, dir)
	s, err := (&order{Policy: &p, Path: cmd.Path, Argv: cmd.Args, Namespaces: namespaces}).
		wrap(cmd, "/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Started(cmd.Start()); err != nil {
		_ = cmd.Wait()
		return "", err
	}
	_ = cmd.Wait()
	if status := s.Ended(cmd.ProcessState); status != 0 {
		err = fmt.Errorf("%#x", status)
	}
	return strings.TrimSpace(out.String()), err
}

// needNamespaces skips a test where a system lets users make none.
func needNamespaces(t *testing.T) {
	t.Helper()
	kernel := Probe("/proc/self/exe")
	if err := (&Policy{}).lacks(&kernel); err != nil {
		t.Skip(err)
	}
	if kernel.Namespaces != nil {
		t.Skip(kernel.Namespaces)
	}
}

// What a command may do works: files of its own, its loopback network, its children and pipes between them.
func TestAllowed(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	for script, want := range map[string]string{
		"echo a >f && mv f g && ln g h && ln -s h i && cat i":  "a",
		"mkdir -p a/b && rm -r a && ls":                        "",
		"echo x | sed s/x/y/":                                  "y",
		"echo x >/dev/null && head -c 1 /dev/zero | wc -c":     "1",
		"cat /etc/hostname >/dev/null && echo read":            "read",
		"exec 2>/dev/null; sleep 60 & kill $!; wait; echo end": "end",
		"cat /sys/class/net/lo/operstate":                      "unknown",
		"echo shared >/dev/shm/x && cat /dev/shm/x":            "shared",
		"ls /proc/self/fd | wc -l":                             "4", // three, and the directory
	} {
		for range 2 {
			if got, err := run(t, Policy{}, true, script); got != want || err != nil {
				t.Errorf("%s: %q, %v", script, got, err)
			}
		}
	}
}

// How a command ends passes unchanged, in namespaces, too, where the shim is between.
func TestEndings(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	for script, want := range map[string]string{
		"exit 0":                       "",
		"exit 3":                       "0x300",
		"exit 126":                     "0x7e00",
		"kill -TERM $$":                "0xf",
		"kill -KILL $$":                "0x9",
		"(kill -KILL $$) & wait":       "0x9",
		"sleep 6 & exec true":          "",
		"(setsid sh -c 'exit 4' &); :": "",
	} {
		for _, namespaces := range []bool{false, true} {
			_, err := run(t, Policy{}, namespaces, "exec >/dev/null 2>&1; "+script)
			if got := fmt.Sprint(err); got != cmp.Or(want, "<nil>") {
				t.Errorf("%s, namespaces %v: %s", script, namespaces, got)
			}
		}
	}
}

// A command in namespaces sees its own processes, and nothing of it is left when it has ended, not even
// what has left its session and has no mark.
func TestOwnProcesses(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	for range 2 {
		length := strconv.Itoa(100_000 + rand.IntN(100_000)) // of a sleep that is no other's
		out, err := run(t, Policy{}, true, "setsid env -i setsid sleep "+length+` </dev/null >/dev/null 2>&1 &
			cd /proc; until grep -qs sleep [0-9]*/comm; do :; done; echo $$; cat 1/comm; kill -KILL 1; ls | grep -c "^[0-9]"`)
		lines := strings.Fields(out)
		if err != nil || len(lines) != 3 || len(lines[0]) > 2 || len(lines[2]) > 2 {
			t.Errorf("%q, %v", out, err)
		}
		all, err := filepath.Glob("/proc/[0-9]*/cmdline")
		if err != nil || len(all) == 0 {
			t.Fatalf("%d processes, %v", len(all), err)
		}
		for _, file := range all {
			if line, _ := os.ReadFile(file); string(line) == "sleep\x00"+length+"\x00" {
				t.Errorf("%s is left", file)
			}
		}
	}
}

// A command that cannot be started says why, as without a sandbox.
func TestMissingProgram(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	cmd := &exec.Cmd{Path: "/no/such/program", Args: []string{"x"},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	s, err := (&Policy{}).Wrap(cmd, "/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Started(cmd.Start()); err == nil ||
		err.Error() != "sandbox: /no/such/program: no such file or directory" {
		t.Errorf("%v", err)
	}
	_ = cmd.Wait()
}

// Limits hold.
func TestLimits(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	for name, c := range map[string]struct {
		limits Limits
		script string
	}{
		"file size": {Limits{FileSize: 1 << 20}, "head -c 2M /dev/zero >f"},
		"files":     {Limits{Files: 8}, "exec 3<. 4<. 5<. 6<. 7<. 8<. 9<."},
		"processor": {Limits{CPU: time.Second}, "i=0; while [ $i -lt 9000000 ]; do i=$((i+1)); done"},
		"memory": {Limits{Memory: 64 << 20},
			"head -c 200M /dev/zero | tail -c 150M | wc -c; test $(head -c 200M /dev/zero | tail -c 150M | wc -c) = 157286400"},
		"processes": {Limits{Processes: 20},
			"for i in $(seq 30); do sleep 5 >/dev/null 2>&1 & all=\"$all $!\"; done; kill $all"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "processes" && os.Geteuid() == 0 {
				t.Skip("root has no such limit; TestAsAnotherUser has")
			}
			if out, err := run(t, Policy{}, true, c.script); err != nil {
				t.Errorf("without the limit: %v: %s", err, out)
			}
			if out, err := run(t, Policy{Limits: c.limits}, true, c.script); err == nil {
				t.Errorf("it is not held: %s", out)
			}
		})
	}
}

// All holds for a user that is not root, too.
func TestAsAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 || testing.Short() {
		t.Skip("this is not root, or shall be short")
	}
	dir, err := os.MkdirTemp("", "sandbox") //nolint:usetesting // short, for the paths of sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(dir+"/test", program, 0o755)
	}
	if err == nil {
		err = os.Chown(dir, otherUser, otherUser)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(dir+"/test",
		"-test.run=^(TestEscapes|TestAllowed|TestLimits|TestMissingProgram)$", "-test.v")
	cmd.Dir = dir
	cmd.Env = []string{"TMPDIR=" + dir, "HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otherUser, Gid: otherUser}}
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "SKIP: TestEscapes") {
		t.Errorf("%v\n%s", err, out)
	}
	// Some systems let no user make namespaces: then they cannot be started.
	if strings.Contains(string(out), "namespaces are not tried") &&
		!strings.Contains(string(out), "fork/exec") {
		t.Errorf("it has no namespaces:\n%s", out)
	}
}

// otherUser is the id of a user that owns nothing.
const otherUser = 65534

// What a system cannot give is an error that names it, and says what would run.
func TestLacks(t *testing.T) {
	t.Parallel()
	none := errors.New("not permitted")
	for name, c := range map[string]struct {
		policy Policy
		kernel Kernel
		want   string
	}{
		"landlock": {Policy{}, Kernel{Landlock: 3}, "sandbox: this system has Landlock 3, and 6 is needed"},
		"processes": {Policy{Limits: Limits{Processes: 1}}, Kernel{Landlock: 7, Namespaces: none},
			"limits.processes"},
		"hidden": {Policy{Write: []string{"/a"}, Hide: []string{"/a/b"}},
			Kernel{Landlock: 7, Namespaces: none}, "hiding /a/b in /a"},
		"nothing": {Policy{Write: []string{"/a"}, Hide: []string{"/b"}},
			Kernel{Landlock: 7, Namespaces: none}, ""},
		"namespaces": {Policy{Write: []string{"/a"}, Hide: []string{"/a/b"}}, Kernel{Landlock: 7}, ""},
	} {
		err := c.policy.lacks(&c.kernel)
		if c.want == "" && err != nil ||
			c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
