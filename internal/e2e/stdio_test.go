package e2e

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A signal that ends a process at its start leaves the pipe as it was: others share it. Once it may not: a
// thread of Go's runtime
// that is about to end the process, by a signal that nobody had asked for yet, may wait for a processor while
// the process goes on. (Seen in 2 % of starts when tgkill is held up for 20 ms; runtime/sigqueue.go calls the
// race unavoidable. With the pipes made non-blocking before
// the signals are asked for, two to ten of these 300 are left so.)
func TestEndedAtTheStart(t *testing.T) {
	t.Parallel()
	config := writeConfig(t, "tools: {a: {command: [echo]}}")
	in := sharedPipe(t)
	left := 0
	for n := range 300 {
		args, signals := append(config, "--state", "memory"), []os.Signal{syscall.SIGTERM}
		switch n % 3 {
		case 0:
			// The first is for reading the config again, and ends nothing soon.
			signals = []os.Signal{syscall.SIGHUP, syscall.SIGTERM}
		case 1:
			args, signals = append([]string{"tools"}, args...), []os.Signal{syscall.SIGHUP}
		}
		cmd := programCommand(t, args...)
		cmd.Stdin = in
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Duration(n) * 25 * time.Microsecond)
		for _, s := range signals {
			_ = cmd.Process.Signal(s)
		}
		end := cmd.Wait()
		if nonBlocking(t, in) {
			t.Logf("after %d µs (%v) the pipe was left non-blocking", n*25, end)
			if left++; left > 1 {
				t.FailNow()
			}
			if err := syscall.SetNonblock(int(in.Fd()), false); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// So does a second signal, which ends a process that is about to end.
func TestEndedAtOnce(t *testing.T) {
	t.Parallel()
	in := sharedPipe(t)
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		cmd := programCommand(t, "tools", "--", "sh", "-c",
			"read request; echo asked >&2; cat >/dev/null; echo told >&2; while kill -0 $PPID; do sleep 0.1; done")
		cmd.Stdin = in
		stderr, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		watch := time.AfterFunc(watchdog, func() { _ = cmd.Process.Kill() })
		for lines := bufio.NewScanner(stderr); lines.Scan() && cmd.Process.Signal(s) == nil &&
			lines.Text() != "told"; {
		}
		end := cmd.Wait()
		watch.Stop()
		if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != s {
			t.Errorf("%v twice: %v", s, end)
		}
		if nonBlocking(t, in) {
			t.Fatalf("%v twice: the pipe was left non-blocking", s)
		}
	}
}

// Pipes that are non-blocking at the start, as a runnel that was killed leaves them, serve as well as others.
func TestPipesThatDoNotBlock(t *testing.T) {
	t.Parallel()
	config := append(writeConfig(t, `tools: {flood: {command: [sh, -c, "yes xxxx | head -c 300000"]}}`),
		"--state", "memory")
	self := append([]string{builtProgram(t)}, config...)
	for name, args := range map[string][]string{
		"serve": config,
		"wrap":  append([]string{"wrap", "--state", "memory", "--"}, self...),
		"trace": append([]string{"trace", "--file", os.DevNull, "--"}, self...),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var files [4]*os.File // stdin and stdout, and their other ends
			for n := range 2 {
				ends := make([]int, 2)
				if err := syscall.Pipe(ends); err != nil {
					t.Fatal(err)
				}
				syscall.CloseOnExec(ends[0])
				syscall.CloseOnExec(ends[1])
				if err := syscall.SetNonblock(ends[n], true); err != nil {
					t.Fatal(err)
				}
				files[n], files[n+2] = os.NewFile(uintptr(ends[n]), "runnel's"),
					os.NewFile(uintptr(ends[1-n]), "the client's")
			}
			cmd := programCommand(t, args...)
			cmd.Stdin, cmd.Stdout = files[0], files[1]
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			_, _ = files[0].Close(), files[1].Close()
			watch := time.AfterFunc(watchdog, func() { _ = cmd.Process.Kill() })
			defer watch.Stop()
			lines := bufio.NewReader(files[3])
			say := func(id int, line string) (answer string) {
				if _, err := files[2].WriteString(line + "\n"); err != nil {
					t.Fatal(err)
				}
				for {
					answer, err := lines.ReadString('\n')
					if err != nil || strings.Contains(answer, fmt.Sprintf(`"id":%d,`, id)) {
						return answer
					}
				}
			}
			if answer := say(0, initialize); !strings.Contains(answer, "serverInfo") {
				t.Fatalf("%s", answer)
			}
			for id := range 2 {
				if answer := say(id+1, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"flood"}}`, id+1)); !strings.Contains(answer, "xxxx") {
					t.Errorf("call %d: %.200s", id, answer)
				}
			}
			_ = files[2].Close()
			_, _ = io.Copy(io.Discard, lines)
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

// sharedPipe is the reading end of a pipe that blocks, as a process shares it with others. The other end is
// open as long as the test runs.
func sharedPipe(t *testing.T) *os.File {
	t.Helper()
	ends := make([]int, 2)
	if err := syscall.Pipe(ends); err != nil {
		t.Fatal(err)
	}
	in, out := os.NewFile(uintptr(ends[0]), "in"), os.NewFile(uintptr(ends[1]), "out")
	t.Cleanup(func() { _, _ = in.Close(), out.Close() })
	return in
}

func nonBlocking(t *testing.T, f *os.File) bool {
	t.Helper()
	conn, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var flags int
	if controlled := conn.Control(func(fd uintptr) {
		flags,
			err = unix.FcntlInt(fd, unix.F_GETFL, 0)
	}); controlled != nil || err != nil {
		t.Fatal(controlled, err)
	}
	return flags&unix.O_NONBLOCK != 0
}
