package e2e

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"runnel/internal/natstest"
	"runnel/partials"
	"runnel/tools"
	"runnel/tools/command"
	"runnel/tools/config"
)

var (
	executable string // the test binary
	searchPath string // $PATH of the tests
	// Stands in the environment of every process that the tests start, and of their children.
	childMark string
)

// shortRun is what go test -short runs of this package unless -run says more: the wire, in process and with
// the real program, the rooms, and a little of each command. It needs no other program than Go. The other
// tests wait for processes, servers, packages of npm or long output.
const shortRun = `^(TestAuditRefuses|TestTranscripts|TestSchemasAreClosed|TestStatelessSchemasAreClosed|TestMethodsAreTheGoldenList|TestEveryRuleHasATranscript` +
	`|TestEveryRequirementHasATranscript|TestTopLevelIsMain|TestImportsPointDownwards|TestSecurityNamesTests|TestStdoutIsClean|TestChildDiesWithKilledProgram` +
	`|TestWrongUseExitsTwo|TestConfigCommands|TestCallInEveryDialect|TestCall|TestTrust|TestDoctor|TestKilledWhileStreaming)$`

// TestMain runs the tests at the top of the repository. After them no process that they started is left, and
// no goroutine of the program.
func TestMain(m *testing.M) {
	syscall.Umask(0o022) // a state that the user's group may write is refused
	// nohup ignores it, and so would every program that is started here. A signal that is caught is not inherited.
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	if os.Getenv(asLiar) != "" {
		liarMain()
		os.Exit(0)
	}
	if os.Getenv(asClock) != "" {
		clockMain()
		os.Exit(0)
	}
	for _, err := os.Stat("go.mod"); err != nil; _, err = os.Stat("go.mod") {
		if err := os.Chdir(".."); err != nil {
			panic(err)
		}
	}
	flag.Parse()
	if testing.Short() && flag.Lookup("test.run").Value.String() == "" {
		_ = flag.Set("test.run", shortRun)
	}
	var err error
	if executable, err = os.Executable(); err != nil {
		panic(err)
	}
	searchPath = os.Getenv("PATH")
	if built.dir, err = os.MkdirTemp("", "runnel-test"); err != nil {
		panic(err)
	}
	childMark = fmt.Sprintf("RUNNEL_TEST_RUN=%d.%d", os.Getpid(), time.Now().UnixNano())
	letGo := holdGuard()
	code := m.Run()
	letGo()
	_ = os.RemoveAll(built.dir)
	natstest.CleanUp()
	if err := nothingLeft(); err != nil {
		fmt.Fprintln(os.Stderr, "FAIL: after the tests:", err)
		code = 1
	}
	os.Exit(code)
}

// holdGuard runs a command until letGo. The guard, and the thread that starts commands, are there as long as
// commands run and serve all of the process: one that came to be in a bubble of testing/synctest would keep
// it from its end, and could not serve another bubble.
func holdGuard() (letGo func()) {
	c, err := command.New("hold", config.Command{Shell: "echo held; exec tail -f " + os.DevNull},
		config.Base{Vars: []string{"PATH=" + searchPath, childMark}})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	log, ended := partials.NewLog(nil), make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = c.Call(ctx, &tools.Call{}, tools.NewOutput(ctx, log, nil))
	}()
	if err := log.NewReader(0).Wait(ctx, 1); err != nil {
		panic(err)
	}
	return func() { cancel(); <-ended }
}

// nothingLeft waits a moment for what is about to end.
func nothingLeft() error {
	deadline := time.Now().Add(watchdog)
	for {
		err := errors.Join(noProcess(), noGoroutine())
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// noProcess looks for processes that carry the tests' mark, orphans included. It sees them where there is a
// /proc.
func noProcess() error {
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range environs {
		env, err := os.ReadFile(file)
		if err == nil && bytes.Contains(env, []byte(childMark)) {
			pid := filepath.Base(filepath.Dir(file))
			cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
			return fmt.Errorf("process %s is left: %q", pid,
				bytes.ReplaceAll(cmdline, []byte{0}, []byte{' '}))
		}
	}
	return nil
}

func noGoroutine() error {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for _, stack := range strings.Split(string(stacks), "\n\n") {
		if (strings.Contains(stack, "runnel/") || strings.Contains(stack, "runnel.")) &&
			!strings.Contains(stack, "nothingLeft") {
			return fmt.Errorf("goroutine is left:\n%s", stack)
		}
	}
	return nil
}

// built are the programs that tests start, each built when the first test wants it.
var built struct {
	dir         string // made by TestMain
	user, raced buildOnce
}

type buildOnce struct {
	once sync.Once
	err  error
}

// otherProgram is the variable that names a program to test instead of the one that is built here, such as
// one for Windows (make wine).
const otherProgram = "RUNNEL_TEST_PROGRAM"

// program builds the program once and returns its file.
func (b *buildOnce) program(t testing.TB, name string, flags ...string) string {
	t.Helper()
	if other := os.Getenv(otherProgram); other != "" {
		return other
	}
	file := filepath.Join(built.dir, name)
	b.once.Do(func() {
		args := append(append([]string{"build"}, flags...), "-o", file, ".")
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			b.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	if b.err != nil {
		t.Fatal(b.err)
	}
	return file
}

// builtProgram is the program as a user has it, for the tests that measure it or hand it to another client.
func builtProgram(t testing.TB) string {
	t.Helper()
	return built.user.program(t, "runnel")
}

// racedProgram is the program with the race detector, if the tests have it. Its environment needs
// noSleepAtExit.
func racedProgram(t testing.TB) string {
	t.Helper()
	if !raced {
		return builtProgram(t)
	}
	return built.raced.program(t, "runnel-raced", "-race")
}

// noSleepAtExit keeps the race detector from sleeping a second before each exit.
const noSleepAtExit = "GORACE=atexit_sleep_ms=0"

// racedCommand is the program as a command, race detector included.
func racedCommand(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(racedProgram(t), args...)
	cmd.Env = append(environ(t), noConfig, noSleepAtExit)
	return cmd
}

// programCommand is the built program as a command.
func programCommand(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(builtProgram(t), args...)
	cmd.Env = append(environ(t), noConfig)
	return cmd
}

// peakRSS is the most memory that a process has held so far, in bytes; false where the system does not tell.
func peakRSS(pid int) (int64, bool) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(status)) {
		if kib, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseInt(strings.Fields(kib)[0], 10, 64)
			return n << 10, err == nil
		}
	}
	return 0, false
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"tasks":{"streaming":{"partial":{}}}},"clientInfo":{"name":"test","version":"1"}}}`

// open does the handshake of a client that takes partials.
func (s *session) open() {
	s.t.Helper()
	s.sendLine("%s", initialize)
	s.line()
	s.sendLine(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// Exit code 0 is for EOF and signals (SURFACE "Command line"); the children of a task go with the program.
func TestEndTakesChildrenAlong(t *testing.T) {
	for name, end := range map[string]func(s *session) error{
		"EOF":     func(s *session) error { return s.closeStdin() },
		"SIGTERM": func(s *session) error { return syscall.Kill(s.pid, syscall.SIGTERM) },
		"SIGINT":  func(s *session) error { return syscall.Kill(s.pid, syscall.SIGINT) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := process(t, racedCommand(t, "--tool", "nap=sleep 600", "--drain", "100ms"))
			child := s.startNap()
			if err := end(s); err != nil {
				t.Fatal(err)
			}
			select {
			case <-s.exited:
			case <-time.After(watchdog):
				t.Fatal("the program does not exit")
			}
			if s.code != 0 {
				t.Errorf("exit code %d\nstderr:\n%s", s.code, s.stderr)
			}
			gone(t, child)
		})
	}
}

// The kernel takes the child away when the program has no chance to.
func TestChildDiesWithKilledProgram(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Log("only Linux ties a child to its parent's life")
		return
	}
	t.Parallel()
	s := process(t, racedCommand(t, "--tool", "nap=sleep 600"))
	child := s.startNap()
	if err := syscall.Kill(s.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-s.exited
	gone(t, child)
}

// startNap starts the command tool "nap" as a task and returns the process id of its child.
func (s *session) startNap() int {
	s.t.Helper()
	s.open()
	s.sendLine(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nap","task":{}}}`)
	s.line()
	for deadline := time.Now().Add(watchdog); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		list, _ := filepath.Glob("/proc/[0-9]*/stat")
		for _, file := range list {
			stat, _ := os.ReadFile(file)
			// pid (comm) state ppid ...
			if _, rest, ok := strings.Cut(string(stat), "(sleep) "); ok {
				if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(s.pid) {
					pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
					return pid
				}
			}
		}
	}
	s.t.Fatalf("no child of %d\nstderr:\n%s", s.pid, s.stderr)
	return 0
}

func gone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(watchdog); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || bytes.Contains(stat, []byte("(sleep) Z")) {
			return
		}
	}
	t.Fatalf("child %d lives on", pid)
}

// A client that goes away closes both pipes at once. The write fails; the program must end by itself, not by
// SIGPIPE.
func TestClosedStdoutEndsTheProgram(t *testing.T) {
	t.Parallel()
	cmd := racedCommand(t, "--selftest")
	in, out := pipes(t, cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = out.Close()
	if _, err := fmt.Fprintf(in, "%s\n", initialize); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(watchdog):
		_ = cmd.Process.Kill()
		t.Fatal("the program does not notice that its stdout is closed")
	}
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		t.Errorf("killed by %v", status.Signal())
	}
	_ = in.Close()
}

// stdout carries messages and nothing else: every line that any tool or log writes goes elsewhere.
// The sessions of all tests check it; here the program has nothing to say but logs at their loudest.
func TestStdoutIsClean(t *testing.T) {
	t.Parallel()
	s := process(t, racedCommand(t, "--selftest", "--log-level", "debug", "--log-format", "json"))
	s.open()
	s.sendLine(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"panic","arguments":{}}}`)
	s.sendLine(`not json`)
	s.line()
	s.line()
	if rest, code, err := s.finish(); err != nil || code != 0 || len(rest) > 0 {
		t.Errorf("rest %q, code %d, %v", rest, code, err)
	}
	logs := strings.TrimSpace(s.stderr.String())
	if logs == "" {
		t.Error("nothing on stderr, at level debug")
	}
	for line := range strings.Lines(logs) {
		if !strings.HasPrefix(line, "{") {
			t.Errorf("stderr line is not JSON: %s", line)
		}
	}
}

// Wrong flags and config exit 2 and say on stderr what is wrong; stdout stays empty.
func TestWrongUseExitsTwo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ flags, says string }{
		{"--no-such-flag", "no-such-flag"},
		{"--config /does/not/exist.yaml", "/does/not/exist.yaml"},
		{"--max-line nonsense", "max-line"},
		{"--tool nonsense", "nonsense"},
	} {
		cmd := racedCommand(t, strings.Fields(c.flags)...)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		_ = cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != 2 || stdout.Len() > 0 ||
			!strings.Contains(stderr.String(), c.says) {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", c.flags, code, &stdout, &stderr)
		}
	}
}
