package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"runnel/internal/processtest"
	"runnel/internal/system"
)

func init() {
	// first is the first process of a container. It runs a command whose daemons end before it and with it,
	// and says when they are all collected.
	children["first"] = func([]string) {
		CollectOrphans(context.Background())
		p, err := Start(shell(`setsid -f true; setsid -f sleep 600; sleep 0.1`))
		if err != nil {
			panic(err)
		}
		p.Run(context.Background(), io.Discard, io.Discard, Limits{})
		fmt.Println("orphans:", len(zombies()) > 0)
		for len(zombies()) > 0 {
			time.Sleep(10 * time.Millisecond)
		}
		fmt.Println("collected")
	}
	// reserved may have no more threads than it has then, and has many system calls that wait. It has
	// reserved threads if args[0] says so.
	children["reserved"] = func(args []string) {
		if args[0] == "reserve" {
			ReserveThreads()
		}
		n := threadsOfUser()
		if err := syscall.Setrlimit(unix.RLIMIT_NPROC, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
			panic(err)
		}
		var pipe [2]int
		if err := syscall.Pipe(pipe[:]); err != nil {
			panic(err)
		}
		var waiting sync.WaitGroup
		for range spareThreads - 2 {
			waiting.Go(func() { _, _ = syscall.Read(pipe[0], make([]byte, 1)) })
		}
		time.Sleep(100 * time.Millisecond) // until the runtime has missed their threads
		_ = syscall.Close(pipe[1])
		waiting.Wait()
		fmt.Println("fine")
	}
	// announcer is a runnel that is killed as soon as it has a guard, before that can have asked for
	// anything.
	children["announcer"] = func(args []string) {
		guards.mark = args[1]
		if err := errors.Join(os.Mkdir(args[0], 0o700), GuardFolder(args[0])); err != nil {
			panic(err)
		}
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	// guarded is a runnel whose host has left file 3 open. It starts a guard before any command, and closes
	// the file.
	children["guarded"] = func(args []string) {
		if err := GuardFolder(args[0]); err != nil {
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
	for _, pid := range processes() {
		proc := "/proc/" + strconv.Itoa(pid)
		if info, err := os.Stat(proc); err != nil || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Getuid()) {
			continue
		}
		threads, _ := os.ReadDir(proc + "/task")
		n += uint64(len(threads))
	}
	return n
}

// A user who may have no more threads does not lose a server that has started nothing yet: it has what it
// needs.
func TestThreadsAreReserved(t *testing.T) {
	for how, want := range map[string]bool{"reserve": true, "no": false} {
		c := exec.Command("/proc/self/exe", how)
		c.Env = append(os.Environ(), childVar+"=reserved", "GOMAXPROCS=4", "TMPDIR=/tmp")
		c.Dir = "/"
		if os.Getuid() == 0 { // whom no limit binds
			c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65533, Gid: 65533}}
		}
		out, err := c.CombinedOutput()
		if fine := err == nil && string(out) == "fine\n"; fine != want {
			t.Errorf("%s: %v, %.300s", how, err, out)
		}
	}
}

// A process with the mark of a command in its environment outlives a killed runnel if it is of runnel's own
// group: it may be runnel's host, whose group a runnel that is called by a command shares.
func TestGuardSparesTheGroupOfItsRunnel(t *testing.T) {
	dir := t.TempDir()
	host, command := processtest.NewLifeline(t), processtest.NewLifeline(t)
	const mark = markVariable + "=test.1"
	group := holder(t, mark, host)
	holder(t, mark, command)
	runnel := exec.Command(os.Args[0], filepath.Join(dir, "folder"), "test")
	runnel.Env = append(os.Environ(), childVar+"=announcer")
	runnel.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: group}
	if err := runnel.Run(); err == nil || err.Error() != "signal: killed" {
		t.Fatal(err)
	}
	command.Gone()
	// The guard removes its files last.
	for deadline := time.Now().Add(watchdog); ; time.Sleep(10 * time.Millisecond) {
		if left, err := os.ReadDir(dir); err == nil && len(left) == 0 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("left: %v, %v", left, err)
		}
	}
	host.IsHeld()
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

// The pipe of a command is widened when it holds more than one read takes.
func TestWidePipe(t *testing.T) {
	for _, test := range []struct{ holds, prints, want int }{
		{64 << 10, 60 << 10, widePipe},
		{64 << 10, 1 << 10, 64 << 10},
	} {
		out, in, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		system.Widen(out, test.holds)
		text := strings.Repeat("0123456\n", test.prints/8)
		if _, err := in.WriteString(text); err != nil {
			t.Fatal(err)
		}
		in.Close()
		var printed strings.Builder
		new(output).pump(out, &printed)
		raw, err := out.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		_ = raw.Control(func(fd uintptr) {
			if n, err := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0); n != test.want || err != nil {
				t.Errorf("a pipe of %d bytes holds %d after %d bytes of output (%v), want %d", test.holds, n,
					test.prints, err, test.want)
			}
		})
		if printed.String() != text {
			t.Errorf("%d bytes are passed on, want %d", printed.Len(), len(text))
		}
	}
}

// The first process of a container collects what was started by others.
func TestFirstProcessCollectsOrphans(t *testing.T) {
	unshare := func(args ...string) *exec.Cmd {
		return exec.Command("unshare",
			append([]string{"--pid", "--fork", "--kill-child", "--mount-proc"}, args...)...)
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

// The id of a group that has ended may soon be that of another command, which is left alone: its status, too.
func TestIDIsUsedAgain(t *testing.T) {
	t.Parallel()
	for range 2 {
		other, err := Start(shell(`echo up; exec sleep 600`))
		if err != nil {
			t.Fatal(err)
		}
		out, to := io.Pipe()
		ended := make(chan Ending)
		go func() { ended <- other.Run(t.Context(), to, io.Discard, Limits{}) }()
		if _, err := io.ReadFull(out, make([]byte, 3)); err != nil {
			t.Fatal(err)
		}
		EndFamily(other.family.leader, "")
		stray, err := Start(shell(`setsid -f sleep 600`))
		if err != nil {
			t.Fatal(err)
		}
		mark := stray.family.mark
		stray.Run(t.Context(), io.Discard, io.Discard, Limits{})
		// Whose group has ended while it has strays.
		strayed := family{leader: other.family.leader, mark: mark}
		strayed.end(0)
		select {
		case e := <-ended:
			t.Fatalf("the other command has ended: %+v", e)
		default:
		}
		if err := syscall.Kill(other.family.leader, syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		e := <-ended
		if e.State == nil || e.State.Sys().(syscall.WaitStatus).Signal() != syscall.SIGUSR1 {
			t.Errorf("it ended with %+v", e)
		}
		_ = out.Close()
	}
}

// A command has no terminal of runnel's, and one that was stopped (by a read from a terminal, before) ends at
// TERM, not only after its grace.
func TestStoppedCommandEnds(t *testing.T) {
	t.Parallel()
	for range 2 {
		child, err := Start(shell(`cut -d' ' -f1,6 /proc/$$/stat; kill -STOP $$`))
		if err != nil {
			t.Fatal(err)
		}
		out, to := io.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan Ending)
		go func() {
			ended <- child.Run(ctx, to, io.Discard, Limits{Grace: time.Hour})
		}()
		var pid, session int
		if _, err := fmt.Fscan(out, &pid, &session); err != nil || pid != session {
			t.Errorf("process %d is of session %d: %v", pid, session, err)
		}
		go func() { _, _ = io.Copy(io.Discard, out) }()
		late := time.Now().Add(watchdog)
		for s, _ := readStat(pid); s.state != 'T'; s, _ = readStat(pid) {
			if time.Now().After(late) {
				t.Fatal("it is not stopped")
			}
			time.Sleep(time.Millisecond)
		}
		cancel()
		select {
		case e := <-ended:
			if e.Stop != Cancelled || e.State == nil {
				t.Errorf("it ended with %+v", e)
			}
		case <-time.After(watchdog):
			t.Fatal("it does not end")
		}
	}
}

// The end of a child that others have collected is unknown.
func TestAwait(t *testing.T) {
	for range 2 {
		p, err := Start(shell("exit 3"))
		if err != nil {
			t.Fatal(err)
		}
		if e := p.Run(t.Context(), io.Discard, io.Discard, Limits{}); e.Unknown != nil ||
			e.State.ExitCode() != 3 {
			t.Errorf("%+v", e)
		}
	}
	child, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := syscall.Wait4(child.Pid, nil, 0, nil); err != nil {
		t.Fatal(err)
	}
	if state, err := await(child); state != nil || !errors.Is(err, syscall.ECHILD) {
		t.Errorf("%v, %v", state, err)
	}
}
