package tools

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
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

	"runnel/partials"
	"runnel/rpc/mcp"
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
	// crowded is a runnel whose user may have so many more processes and threads as args[0] says. It calls one command after the other
	// until one cannot be started, again and again; says why; ends them, and says what one prints then.
	children["crowded"] = func(args []string) {
		n, _ := strconv.ParseUint(args[0], 10, 64)
		n += threadsOfUser()
		if err := syscall.Setrlimit(unix.RLIMIT_NPROC, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
			panic(err)
		}
		c, err := NewCommand("test", CommandConfig{Command: []string{"sleep", "600"}}, Environment{Dir: "/", Vars: withoutChild(os.Environ())})
		if err != nil {
			panic(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var calls sync.WaitGroup
		for refused := 0; refused < 20; {
			result := make(chan *mcp.CallToolResult, 1)
			calls.Go(func() {
				r, _ := c.Call(ctx, &Call{}, NewOutput(ctx, partials.NewLog(nil), nil))
				result <- r
			})
			select {
			case r := <-result:
				if refused++; refused == 1 {
					fmt.Println(string(r.Content[0]))
				}
			case <-time.After(20 * time.Millisecond): // it runs, or will be refused a little later: then the next is, too
			}
		}
		cancel()
		calls.Wait()
		c, err = NewCommand("test", CommandConfig{Shell: "echo fine"}, Environment{Dir: "/", Vars: withoutChild(os.Environ())})
		if err != nil {
			panic(err)
		}
		r, err := c.Call(context.Background(), &Call{}, NewOutput(context.Background(), partials.NewLog(nil), nil))
		fmt.Println(string(r.Content[0]), err)
	}
	// first is the first process of a container. It runs a command whose daemons end before it and with it, and says when they are
	// all collected.
	children["first"] = func([]string) {
		CollectOrphans(context.Background())
		c, err := NewCommand("test", CommandConfig{Shell: `setsid -f true; setsid -f sleep 600; sleep 0.1`}, Environment{Vars: withoutChild(os.Environ())})
		if err != nil {
			panic(err)
		}
		if _, err := c.Call(context.Background(), &Call{}, NewOutput(context.Background(), partials.NewLog(nil), nil)); err != nil {
			panic(err)
		}
		fmt.Println("orphans:", len(zombies()) > 0)
		for len(zombies()) > 0 {
			time.Sleep(10 * time.Millisecond)
		}
		fmt.Println("collected")
	}
	// announcer is a runnel that is killed as soon as it has a guard, before that can have asked for anything.
	children["announcer"] = func(args []string) {
		guards.mark = args[1]
		if err := errors.Join(os.Mkdir(args[0], 0o700), guards.announce(args[0])); err != nil {
			panic(err)
		}
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	// guarded is a runnel whose host has left file 3 open. It starts a guard before any command, and closes the file.
	children["guarded"] = func(args []string) {
		if err := guards.announce(args[0]); err != nil {
			panic(err)
		}
		if err := unix.Close(3); err != nil {
			panic(err)
		}
		fmt.Println("ready")
		time.Sleep(time.Hour)
	}
}

// threadsOfUser is what RLIMIT_NPROC counts.
func threadsOfUser() (n uint64) {
	for _, id := range processes() {
		pid := strconv.Itoa(id)
		if info, err := os.Stat("/proc/" + pid); err != nil || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Getuid()) {
			continue
		}
		threads, _ := os.ReadDir("/proc/" + pid + "/task")
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
		if !strings.Contains(why, "cannot start") || !strings.Contains(why, "no more processes may be started: wait until others have ended, or raise the limit") {
			t.Errorf("the command that cannot be started says %s", why)
		}
		if !strings.Contains(after, "fine") {
			t.Errorf("when there is room again a command gives %s", after)
		}
	}
}

// What has the mark of a command in its environment outlives a killed runnel if it is of runnel's own group: its host may be, which a
// runnel that is called by a command shares.
func TestGuardSparesTheGroupOfItsRunnel(t *testing.T) {
	dir := t.TempDir()
	host, command := newLifeline(t), newLifeline(t)
	const mark = markVariable + "=test.1"
	group := holder(t, mark, host)
	holder(t, mark, command)
	runnel := exec.Command(os.Args[0], filepath.Join(dir, "folder"), "test")
	runnel.Env = append(os.Environ(), childVar+"=announcer")
	runnel.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: group}
	if err := runnel.Run(); err == nil || err.Error() != "signal: killed" {
		t.Fatal(err)
	}
	command.gone()
	isEmptied(t, dir) // which the guard does last
	host.isHeld()
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

// What a command starts ends with it, wherever it goes.
func TestStrayEndsWithItsCommand(t *testing.T) {
	for name, shell := range strays {
		t.Run(name, func(t *testing.T) {
			line := newLifeline(t)
			env := map[string]string{"LINE": line.path, "HOLD": hold}
			r := start(t, mustCommand(t, CommandConfig{Shell: shell, Env: env, Grace: duration(100 * time.Millisecond)}), `{}`)
			r.waitFor("ready\n")
			r.cancel()
			r.end()
			line.gone()
		})
	}
	t.Run("good end", func(t *testing.T) {
		line := newLifeline(t)
		c := mustCommand(t, CommandConfig{Shell: `setsid -f sh -c "$HOLD"; read x < "$GATE"`, Env: map[string]string{"LINE": line.path, "HOLD": hold, "GATE": newGate(t)}})
		r := start(t, c, `{}`)
		r.waitFor("ready\n")
		openGate(t, c)
		if _, o := r.end(); o.failed() {
			t.Errorf("outcome %+v", o)
		}
		line.gone()
	})
}

// What a server starts ends with it, too.
func TestStrayEndsWithItsServer(t *testing.T) {
	line := newLifeline(t)
	ready := filepath.Join(t.TempDir(), "ready")
	b := newBehind(t, fake(t, "fake", func(u *UpstreamConfig) {
		u.Env["LINE"], u.Env["READY"], u.Env["PROGRAM"] = line.path, ready, u.Command[0]
		u.Command = []string{"sh", "-c", `mkfifo "$READY"; setsid -f sh -c 'exec 9>"$LINE"; exec >"$READY" 2>&1; sleep 600'; : < "$READY"; exec "$PROGRAM" pid`}
	}))
	b.mustCall("pid")
	line.isHeld()
	b.Close()
	line.gone()
}

// It ends with a runnel that is killed, too. What hides its mark and has lost its parent is not found then.
func TestStrayEndsWithAKilledRunnel(t *testing.T) {
	for name, shell := range strays {
		if name == "no mark" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			line := newLifeline(t)
			runnel := exec.Command(os.Args[0], shell)
			runnel.Env = append(os.Environ(), childVar+"=runnel", "LINE="+line.path, "HOLD="+hold)
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
			line.gone()
		})
	}
}

// A guard has none of the files that runnel's host left open.
func TestGuardHasNoFilesOfTheHost(t *testing.T) {
	read, left, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	runnel := exec.Command(os.Args[0], t.TempDir())
	runnel.Env = append(os.Environ(), childVar+"=guarded")
	runnel.ExtraFiles = []*os.File{left}
	out, err := runnel.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	err = runnel.Start()
	_ = left.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = runnel.Process.Kill()
		_ = runnel.Wait()
	}()
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	_ = read.SetReadDeadline(time.Now().Add(watchdog))
	if _, err := read.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the file is still open: %v", err)
	}
}

// A command that is not gone after KILL, here because a debugger looks at it, keeps its call open no longer.
func TestChildThatIsNotGoneAfterKill(t *testing.T) {
	config := child("held")
	config.Grace = duration(0)
	r := start(t, mustCommand(t, config), `{}`)
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
	if got := contentText(t, result.Content[0]); o.Signal != "SIGKILL" || !strings.HasSuffix(got, "so far\nkilled by SIGKILL; it is not gone 2s after KILL") {
		t.Errorf("%q, %+v", got, o)
	}
}

// The pipe of a command is widened when it holds more than one read takes, and no wide one is made narrower.
func TestWidePipe(t *testing.T) {
	for _, test := range []struct{ holds, prints, want int }{
		{64 << 10, 60 << 10, widePipe},
		{64 << 10, 1 << 10, 64 << 10},
		{2 * widePipe, 60 << 10, 2 * widePipe},
	} {
		out, in, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		widenPipe(out, test.holds)
		text := strings.Repeat("0123456\n", test.prints/8)
		if _, err := in.WriteString(text); err != nil {
			t.Fatal(err)
		}
		in.Close()
		log := partials.NewLog(nil)
		r := newRecord(&CommandConfig{ANSI: "keep", MaxResult: new(minMaxResult)}, nil, NewOutput(t.Context(), log, nil))
		r.stdout.pump(out)
		raw, err := out.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		_ = raw.Control(func(fd uintptr) {
			if n, err := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0); n != test.want || err != nil {
				t.Errorf("a pipe of %d bytes holds %d after %d bytes of output (%v), want %d", test.holds, n, test.prints, err, test.want)
			}
		})
		if log.Size() != int64(len(text)) {
			t.Errorf("%d bytes in the log, want %d", log.Size(), len(text))
		}
	}
}

// The first process of a container collects what was started by others.
func TestFirstProcessCollectsOrphans(t *testing.T) {
	unshare := func(args ...string) *exec.Cmd {
		return exec.Command("unshare", append([]string{"--pid", "--fork", "--kill-child", "--mount-proc"}, args...)...)
	}
	if err := unshare("true").Run(); err != nil {
		t.Skip("no process namespace can be made: ", err)
	}
	runnel := unshare(os.Args[0])
	runnel.Env = append(os.Environ(), childVar+"=first")
	var out strings.Builder
	runnel.Stdout, runnel.Stderr = &out, os.Stderr
	ended := time.AfterFunc(watchdog, func() { _ = runnel.Process.Kill() })
	defer ended.Stop()
	if err := runnel.Run(); err != nil || out.String() != "orphans: true\ncollected\n" {
		t.Errorf("%v: %s", err, &out)
	}
}

// Where runnel is the first process of a container, what a command or a server leaves behind becomes its child: it is collected.
func TestNoZombieIsLeft(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Skip(err)
	}
	defer func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) }()
	const leave = `sleep 600 >&2 & echo $! > "$LEFT"; `
	gone := func(t *testing.T, left string) {
		text, _ := os.ReadFile(left)
		pid := 0
		if _, err := fmt.Sscan(string(text), &pid); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is there still: %v", pid, err)
		}
	}
	t.Run("command", func(t *testing.T) {
		left := filepath.Join(t.TempDir(), "left")
		call(t, mustCommand(t, CommandConfig{Shell: leave + "true", Env: map[string]string{"LEFT": left}}), `{}`)
		gone(t, left)
	})
	t.Run("upstream", func(t *testing.T) {
		left := filepath.Join(t.TempDir(), "left")
		b := newBehind(t, fake(t, "fake", func(u *UpstreamConfig) {
			u.Env["LEFT"], u.Env["PROGRAM"] = left, u.Command[0]
			u.Command = []string{"sh", "-c", leave + `exec "$PROGRAM" pid`}
		}))
		b.mustCall("pid")
		b.Close()
		gone(t, left)
	})
}
