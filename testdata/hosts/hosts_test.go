package hosts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	update = flag.Bool("update", false, "write the golden files")
	runnel = flag.String("runnel", "../../bin/runnel", "the runnel `binary`")
	cache  = flag.String("cache", "",
		"`directory` where the hosts are installed (default runnel-hosts in the user's cache)")
	logs = flag.String("logs", "", "`directory` for what the hosts and the models say")
)

const (
	installLimit = 5 * time.Minute
	runLimit     = 5 * time.Minute
)

func TestHosts(t *testing.T) {
	table := &figures{}
	t.Cleanup(func() { t.Log(table) })
	scenarios := append(slices.Clone(Scenarios), minute, followed(1300)) // more than 2 min
	if testing.Short() {
		scenarios = append(slices.Clone(Scenarios), followed(60))
	}
	url := ""
	if !testing.Short() {
		url = provider(t)
	}
	for _, h := range Hosts {
		if testing.Short() && !h.Short {
			continue
		}
		t.Run(h.Name, func(t *testing.T) {
			t.Parallel()
			program := install(t, h)
			own := scenarios
			if slices.Contains(four, h.Name) && (!testing.Short() || h.Name == "codex") {
				own = append(slices.Clone(scenarios), servers())
				if !testing.Short() {
					own = append(own, prompted)
				}
			}
			switch {
			case !slices.Contains(three, h.Name):
			case !testing.Short():
				own = append(slices.Clone(own), review(url), release())
			case h.Name == "codex":
				own = append(slices.Clone(own), release())
			}
			for _, s := range own {
				t.Run(s.Name, func(t *testing.T) {
					if why := h.Cannot[s.Name]; why != "" {
						t.Skip(why)
					}
					play(t, h, program, s, table)
				})
			}
		})
	}
}

// install installs a host by its lock file, unless it is there, and returns its program. No script of a
// package runs.
func install(t *testing.T, h Host) string {
	root := *cache
	if root == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		root = filepath.Join(base, "runnel-hosts")
	}
	lock, err := os.ReadFile(filepath.Join("npm", h.Name, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(lock)
	dir := filepath.Join(root, h.Name+"-"+hex.EncodeToString(sum[:6]))
	if find := programs(dir, h); len(find) > 0 {
		return find[0]
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	part, err := os.MkdirTemp(root, "part-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(part) }()
	if err := os.CopyFS(part, os.DirFS(filepath.Join("npm", h.Name))); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), installLimit)
	defer cancel()
	// Not npm ci: that refuses a lock file whose packages for other platforms are in no registry.
	npm := exec.CommandContext(ctx, "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund",
		"--loglevel=error")
	npm.Dir = part
	if out, err := npm.CombinedOutput(); err != nil {
		t.Fatalf("npm install of %s: %v: this needs Linux on x86-64, node 20 or later, npm, and an npm registry that can be reached\n%s", h.Name, err, out)
	}
	if err := os.Rename(part, dir); err != nil && !errors.Is(err, fs.ErrExist) { // another process was first
		t.Fatal(err)
	}
	find := programs(dir, h)
	if len(find) == 0 {
		t.Fatalf("npm has installed %s, but not %s: is there a package for this platform?", h.Name, h.Program)
	}
	return find[0]
}

func programs(dir string, h Host) []string {
	found, err := filepath.Glob(filepath.Join(dir, "node_modules", h.Program))
	if err != nil {
		panic("internal error: " + err.Error())
	}
	return found
}

// play plays a scenario with a host, compares what the model read with the golden file, and asks the
// scenario's oracle.
func play(t *testing.T, h Host, program string, s Scenario, table *figures) {
	binary, err := filepath.Abs(*runnel)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(binary); err != nil {
		t.Fatalf("%v: make build", err)
	}
	dir := t.TempDir()
	run := &Run{T: t, Host: h, Dir: dir,
		Figure: func(name, format string,
			args ...any) {
			table.add(h.Name, name, fmt.Sprintf(format, args...))
		}}
	start := Start{Home: filepath.Join(dir, "home"), Project: filepath.Join(dir, "project")}
	for _, d := range []string{filepath.Join(start.Home, "tmp"), start.Project} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	config := start.write("runnel.yaml", strings.ReplaceAll(s.Config, "DIR", dir))
	start.Server = []string{binary, "--config", config, "--state", filepath.Join(dir, "state")}
	if testing.Short() {
		start.Server = append(start.Server, s.Short...)
	}
	if s.Server != nil {
		start.Server = s.Server(binary, dir)
	}
	if s.Before != nil {
		s.Before(run)
	}

	out, model := traces(t, h, s)
	run.Model, err = Serve(func(results []Result) []Call { return s.Play(run, results) }, model)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Model.Close()
	start.URL = run.Model.URL

	limit := s.Limit
	if limit == 0 {
		limit = runLimit
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	args, env := h.Start(start)
	args = argv(program, args...)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = start.Project
	cmd.Env = append(start.environment(os.Getenv("PATH")), env...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	run.Process = cmd.Process
	if s.During != nil {
		s.During(run)
	}
	err = cmd.Wait()
	sweep(run, start.Home, binary)
	run.Calls, run.Results = run.Model.Read()
	if s.During == nil && err != nil {
		t.Errorf("the host ended with %v after %v\n%s", err, time.Since(began).Round(time.Second),
			tail(out.Name()))
	}
	if got, want := len(run.Results), len(run.Calls); got != want || want == 0 {
		if s.During == nil {
			t.Errorf("the script made %d calls, the model read %d results\n%s", want, got, tail(out.Name()))
		}
	}
	golden(t, run, s)
	s.Check(run)
	if strangers := run.Model.Strangers(); len(strangers) > 0 {
		t.Logf("refused: %s", strings.Join(strangers, ", "))
	}
}

// sweep checks that the host has left nothing of runnel's behind, and ends what it has left of its own.
func sweep(run *Run, home, binary string) {
	run.Helper()
	ours := func() (found []string) {
		for _, command := range left(home) {
			if strings.HasPrefix(command, binary) {
				found = append(found, command)
			}
		}
		return found
	}
	if !eventually(goneLimit, func() bool { return len(ours()) == 0 }) {
		run.Errorf("left behind: %s", strings.Join(ours(), ", "))
	}
	for pid, command := range left(home) {
		run.Logf("the host left behind: %s", command)
		run.Left = append(run.Left, command)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// left finds the processes with a home, as far as /proc tells.
func left(home string) map[int]string {
	found := map[int]string{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		env, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if !slices.Contains(strings.Split(string(env), "\x00"), "HOME="+home) {
			continue
		}
		command, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		found[pid] = strings.ReplaceAll(string(command), "\x00", " ")
	}
	return found
}

// figures is the table that the tests print: what a model reads, by host.
type figures struct {
	mu    sync.Mutex
	lines []string
}

func (f *figures) add(host, name, value string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lines = append(f.lines, fmt.Sprintf("%-20s %-13s %s", host, name, value))
}

func (f *figures) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	slices.Sort(f.lines)
	return "the model read\n" + strings.Join(f.lines, "\n")
}

// golden compares what the model read with the golden file, or writes that.
func golden(t *testing.T, run *Run, s Scenario) {
	t.Helper()
	if s.NoGolden {
		return
	}
	name := filepath.Join("golden", run.Host.Name, s.Name+".txt")
	got := run.Transcript()
	if *update && !t.Failed() {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Errorf("%v: run with -update", err)
	}
	if got != string(want) {
		t.Errorf("the model read something else than %s says; -update writes it anew\n%s", name,
			difference(string(want), got))
	}
}

// difference shows two texts from the first line that differs.
func difference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	i := 0
	for i < len(w) && i < len(g) && w[i] == g[i] {
		i++
	}
	show := func(lines []string) string {
		return strings.Join(lines[min(i, len(lines)):min(i+12, len(lines))], "\n")
	}
	return "--- want\n" + show(w) + "\n--- got\n" + show(g)
}

// traces opens the files for what the host prints, and for what it and the model say to each other.
func traces(t *testing.T, h Host, s Scenario) (host, model *os.File) {
	dir := *logs
	if dir == "" {
		dir = t.TempDir()
	} else if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	create := func(name string) *os.File {
		f, err := os.Create(filepath.Join(dir, h.Name+"-"+s.Name+name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	return create(".out"), create(".model")
}

func tail(name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-2000):])
}

// The README's tables have every host, and every scenario that a host cannot do.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range Hosts {
		if !strings.Contains(string(readme), "| "+h.Name+" | `") {
			t.Errorf("README.md lacks %s", h.Name)
		}
		rows := func(host string, cannot map[string]string, known func(name string) bool) {
			for name, why := range cannot {
				if !known(name) {
					t.Errorf("%s cannot do %s, which is not a scenario", host, name)
				}
				if row := "| " + host + " | " + name + " | " + why +
					" |"; !strings.Contains(string(readme), row) {
					t.Errorf("README.md lacks: %s", row)
				}
			}
		}
		rows(h.Name, h.Cannot, func(name string) bool {
			return slices.ContainsFunc(Scenarios, func(s Scenario) bool { return s.Name == name })
		})
		if h.Terminal != nil {
			rows(h.Name+"-terminal", h.Terminal.Cannot, func(name string) bool {
				return slices.ContainsFunc(sittings, func(s sitting) bool { return s.name == name })
			})
		}
	}
}
