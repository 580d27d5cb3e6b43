package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"runnel/internal/processtest"
	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tools"
	"runnel/tools/config"
)

func init() {
	// held is a command for a debugger to hold.
	children["held"] = func([]string) {
		fmt.Println("process", os.Getpid(), "so far")
		time.Sleep(time.Hour)
	}
	// debugger lets nobody else hear of the end of the process args[0] as long as it goes on itself.
	children["debugger"] = func(args []string) {
		runtime.LockOSThread()
		pid, _ := strconv.Atoi(args[0])
		if err := unix.PtraceSeize(pid); err != nil {
			fmt.Println("held not:", err)
			return
		}
		fmt.Println("held")
		time.Sleep(time.Hour)
	}
	// crowded is a runnel whose user may have so many more processes and threads as args[0] says. It calls
	// one command after the other until one cannot be started, again and again; says why; ends them, and says
	// what one prints then.
	children["crowded"] = func(args []string) {
		n, _ := strconv.ParseUint(args[0], 10, 64)
		n += threadsOfUser()
		if err := syscall.Setrlimit(unix.RLIMIT_NPROC, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
			panic(err)
		}
		c, err := New("test", config.Command{Command: []string{"sleep", "600"}},
			config.Base{Dir: "/", Vars: withoutChild(os.Environ())})
		if err != nil {
			panic(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var calls sync.WaitGroup
		for refused := 0; refused < 20; {
			result := make(chan *mcp.CallToolResult, 1)
			calls.Go(func() {
				r, _ := c.Call(ctx, &tools.Call{}, tools.NewOutput(ctx, partials.NewLog(nil), nil))
				result <- r
			})
			select {
			case r := <-result:
				if refused++; refused == 1 {
					fmt.Println(string(r.Content[0]))
				}
			case <-time.After(20 * time.Millisecond):
				// It runs, or will be refused a little later: then the next is, too.
			}
		}
		cancel()
		calls.Wait()
		c, err = New("test", config.Command{Shell: "echo fine"},
			config.Base{Dir: "/", Vars: withoutChild(os.Environ())})
		if err != nil {
			panic(err)
		}
		r, err := c.Call(context.Background(), &tools.Call{},
			tools.NewOutput(context.Background(), partials.NewLog(nil), nil))
		fmt.Println(string(r.Content[0]), err)
	}
}

// threadsOfUser is what RLIMIT_NPROC counts.
func threadsOfUser() (n uint64) {
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range processes {
		if info, err := os.Stat(proc); err != nil || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Getuid()) {
			continue
		}
		threads, _ := os.ReadDir(proc + "/task")
		n += uint64(len(threads))
	}
	return n
}

// A user who may have no more processes loses the command that needs one, and no other.
func TestNoMoreProcesses(t *testing.T) {
	for _, room := range []string{"45", "60", "75"} {
		runnel := exec.Command("/proc/self/exe", room)
		runnel.Env = append(os.Environ(), childVar+"=crowded", "TMPDIR=/tmp")
		runnel.Dir = "/"
		if os.Getuid() == 0 { // whom no limit binds
			runnel.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		var stderr strings.Builder
		runnel.Stderr = &stderr
		out, err := runnel.Output()
		if err != nil {
			t.Fatalf("%v: %.1000s", err, &stderr)
		}
		why, after, _ := strings.Cut(string(out), "\n")
		if !strings.Contains(why, "cannot start") ||
			!strings.Contains(why, "no more processes may be started: wait until others have ended, or raise the limit") {
			t.Errorf("the command that cannot be started says %s", why)
		}
		if !strings.Contains(after, "fine") {
			t.Errorf("when there is room again a command gives %s", after)
		}
	}
}

// strays are ways to leave a group. $HOLD holds the lifeline, and says "ready".
var strays = map[string]string{
	"session":      `setsid sh -c "$HOLD" & wait`,
	"daemon":       `setsid -f sh -c "$HOLD"; sleep 600`,
	"TERM ignored": `setsid -f sh -c "trap '' TERM HUP; $HOLD"; sleep 600`,
	"job":          `set -m; sh -c "$HOLD" & wait`,
	"group left":   `setsid sh -c "(trap '' TERM; $HOLD) & sleep 0.1" & sleep 600`, // whose leader has ended
	"no mark":      `env -i LINE="$LINE" setsid sh -c "$HOLD" & wait`,
}

// A process that a command starts ends with the command, wherever it goes.
func TestStrayEndsWithItsCommand(t *testing.T) {
	for name, shell := range strays {
		t.Run(name, func(t *testing.T) {
			line := processtest.NewLifeline(t)
			env := map[string]string{"LINE": line.Path, "HOLD": hold}
			r := start(t, mustCommand(t, config.Command{Shell: shell, Env: env,
				Grace: duration(100 * time.Millisecond)}), `{}`)
			r.waitFor("ready\n")
			r.cancel()
			r.end()
			line.Gone()
		})
	}
	t.Run("good end", func(t *testing.T) {
		line := processtest.NewLifeline(t)
		c := mustCommand(t, config.Command{Shell: `setsid -f sh -c "$HOLD"; read x < "$GATE"`,
			Env: map[string]string{"LINE": line.Path, "HOLD": hold, "GATE": processtest.NewGate(t)}})
		r := start(t, c, `{}`)
		r.waitFor("ready\n")
		openGate(t, c)
		if _, o := r.end(); o.failed() {
			t.Errorf("outcome %+v", o)
		}
		line.Gone()
	})
}

// A stray ends with a runnel that is killed, too. What hides its mark and has lost its parent is not found
// then.
func TestStrayEndsWithAKilledRunnel(t *testing.T) {
	for name, shell := range strays {
		if name == "no mark" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			line := processtest.NewLifeline(t)
			runnel := exec.Command(os.Args[0], shell)
			runnel.Env = append(os.Environ(), childVar+"=runnel", "LINE="+line.Path, "HOLD="+hold)
			out, err := runnel.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := runnel.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
				t.Error(err)
			}
			_ = runnel.Process.Kill()
			_ = runnel.Wait()
			line.Gone()
		})
	}
}

// A command that is not gone after KILL, here because a debugger looks at it, keeps its call open no longer.
func TestChildThatIsNotGoneAfterKill(t *testing.T) {
	conf := child("held")
	conf.Grace = duration(0)
	r := start(t, mustCommand(t, conf), `{}`)
	r.waitFor("far\n")
	pid := strings.Fields(r.text())[1]
	debugger := exec.Command(os.Args[0], pid)
	debugger.Env = append(os.Environ(), childVar+"=debugger")
	out, err := debugger.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := debugger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = debugger.Process.Kill()
		_ = debugger.Wait()
	}()
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Skip(line)
	}
	r.cancel()
	result, o := r.end()
	if got := contentText(t, result.Content[0]); o.Signal != "SIGKILL" ||
		!strings.HasSuffix(got, "so far\nkilled by SIGKILL; it has not ended 2s after KILL") {
		t.Errorf("%q, %+v", got, o)
	}
}

// Where runnel is the first process of a container, what a command leaves behind becomes its child: it is
// collected.
func TestNoZombieIsLeft(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Skip(err)
	}
	defer func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) }()
	left := filepath.Join(t.TempDir(), "left")
	call(t, mustCommand(t, config.Command{Shell: `sleep 600 >&2 & echo $! > "$LEFT"; true`,
		Env: map[string]string{"LEFT": left}}), `{}`)
	text, _ := os.ReadFile(left)
	pid := 0
	if _, err := fmt.Sscan(string(text), &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is there still: %v", pid, err)
	}
}
