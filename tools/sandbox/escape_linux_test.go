//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// place is where an attack happens. Every file and socket is of the test.
type place struct {
	Mine, Outside, Hidden string // directories
	Shared                string // a file in shared memory
	TCP, UDP              string // addresses of servers outside
	Terminal              string // one outside
	Victim                int    // a process outside
}

// in returns the place of an attack from its environment.
func in() place {
	victim, _ := strconv.Atoi(os.Getenv("VICTIM"))
	env := os.Getenv
	return place{
		Mine: env("MINE"), Outside: env("OUTSIDE"), Hidden: env("HIDDEN"), Shared: env("SHARED"),
		TCP: env("TCP"), UDP: env("UDP"), Terminal: env("TERMINAL"), Victim: victim,
	}
}

// kind says what is special about an attack.
type kind uint8

const (
	common   kind = iota
	mounts        // Landlock and seccomp alone do not refuse it
	asRoot        // without a sandbox it succeeds for root alone
	possible      // no sandbox refuses it
)

// attacks are what a command may try. Each returns nil if it has done what it must not.
var attacks = []struct {
	name string
	how  kind
	do   func(p place) error
}{
	{"write by path", common, func(p place) error {
		return os.WriteFile(p.Outside+"/new",
			[]byte("x"), 0o600)
	}},
	{"write over a file", common, func(p place) error {
		return os.WriteFile(p.Outside+"/file",
			[]byte("x"), 0o600)
	}},
	{"truncate", common, func(p place) error { return os.Truncate(p.Outside+"/file", 0) }},
	{"delete", common, func(p place) error { return os.Remove(p.Outside + "/file") }},
	{"write by a symbolic link", common, func(p place) error {
		return errors.Join(os.Symlink(p.Outside, p.Mine+"/link"),
			os.WriteFile(p.Mine+"/link/new", []byte("x"), 0o600))
	}},
	{"write by a hard link", common, func(p place) error {
		return errors.Join(os.Link(p.Outside+"/file", p.Mine+"/hard"),
			os.WriteFile(p.Mine+"/hard", []byte("x"), 0o600))
	}},
	{"rename into the allowed directory", common,
		func(p place) error { return os.Rename(p.Outside+"/file", p.Mine+"/got") }},
	{"rename out of it", common, func(p place) error {
		return errors.Join(os.WriteFile(p.Mine+"/a", nil, 0o600), os.Rename(p.Mine+"/a", p.Outside+"/a"))
	}},
	{"write by /proc/self/fd", common, func(p place) error {
		dir, err := os.Open(p.Outside)
		if err != nil {
			return err
		}
		return os.WriteFile(fmt.Sprintf("/proc/self/fd/%d/new", dir.Fd()), []byte("x"), 0o600)
	}},
	{"write by /proc/PID/root", common, func(p place) error {
		return os.WriteFile(fmt.Sprintf("/proc/%d/root%s/new", p.Victim, p.Outside), []byte("x"), 0o600)
	}},
	{"write by /proc/PID/cwd", common, func(p place) error {
		return os.WriteFile(fmt.Sprintf("/proc/%d/cwd/new", p.Victim), []byte("x"), 0o600)
	}},
	{"chmod", mounts, func(p place) error { return os.Chmod(p.Outside+"/file", 0o666) }},
	{"set the times", mounts, func(p place) error {
		return os.Chtimes(p.Outside+"/file", time.Unix(0, 0),
			time.Unix(0, 0))
	}},
	{"write to a git hook", mounts,
		func(p place) error { return os.WriteFile(p.Mine+"/.git/hooks/pre-commit", []byte("x"), 0o700) }},
	{"write to an .envrc that is there", mounts,
		func(p place) error { return os.WriteFile(p.Mine+"/.envrc", []byte("x"), 0o600) }},
	{"write to a runnel.yaml that is there", mounts,
		func(p place) error { return os.WriteFile(p.Mine+"/runnel.yaml", []byte("x"), 0o600) }},
	{"write to a .bashrc that is there", mounts,
		func(p place) error { return os.WriteFile(p.Mine+"/.bashrc", []byte("x"), 0o600) }},
	{"put another in its place", mounts, func(p place) error {
		return errors.Join(os.WriteFile(p.Mine+"/new", []byte("x"), 0o600),
			os.Rename(p.Mine+"/new", p.Mine+"/.envrc"))
	}},
	{"make a file that runs later (.zshrc)", possible,
		func(p place) error { return os.WriteFile(p.Mine+"/.zshrc", []byte("x"), 0o600) }},
	{"mount", asRoot, func(p place) error {
		return errors.Join(unix.Mount(p.Outside, p.Mine+"/m", "", unix.MS_BIND, ""),
			unix.Unmount(p.Mine+"/m", 0))
	}},
	{"a user namespace", common, func(place) error {
		cmd := exec.Command("/bin/true")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
		return cmd.Run()
	}},
	{"read a hidden file", common, func(p place) error { return reads(p.Hidden + "/key") }},
	{"read it by a symbolic link", common, func(p place) error {
		return errors.Join(os.Symlink(p.Hidden, p.Mine+"/link"), reads(p.Mine+"/link/key"))
	}},
	{"read it by a hard link", common, func(p place) error {
		return errors.Join(os.Link(p.Hidden+"/key", p.Mine+"/key"), reads(p.Mine+"/key"))
	}},
	{"rename its directory", common, func(p place) error {
		return errors.Join(os.Rename(p.Hidden, p.Mine+"/hidden"), reads(p.Mine+"/hidden/key"))
	}},
	{"read it by /proc/PID/root", common,
		func(p place) error { return reads(fmt.Sprintf("/proc/%d/root%s/key", p.Victim, p.Hidden)) }},
	{"see another program's arguments", mounts,
		func(p place) error { return reads(fmt.Sprintf("/proc/%d/cmdline", p.Victim)) }},
	{"read another program's environment", common,
		func(p place) error { return reads(fmt.Sprintf("/proc/%d/environ", p.Victim)) }},
	{"read another program's memory", common, func(p place) error {
		f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", p.Victim), os.O_RDONLY, 0)
		return errors.Join(err, f.Close())
	}},
	{"ptrace", common, func(p place) error { return syscall.PtraceAttach(p.Victim) }},
	{"signal", common, func(p place) error { return syscall.Kill(p.Victim, syscall.SIGCONT) }},
	{"TCP", common, func(p place) error { return dials("tcp", p.TCP) }},
	{"UDP, such as DNS", common, func(p place) error { return hears(p.UDP) }},
	{"a unix socket (docker, an ssh agent)", common,
		func(p place) error { return dials("unix", p.Outside+"/socket") }},
	{"an abstract unix socket (D-Bus, X11)", common,
		func(p place) error { return dials("unix", "@"+p.Outside) }},
	{"a unix socket, by a number with more bits", common, func(place) error {
		fd, _, errno := syscall.RawSyscall(syscall.SYS_SOCKET, 1<<32|unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if errno != 0 {
			return errno
		}
		return syscall.Close(int(fd))
	}},
	{"a raw socket", asRoot, func(place) error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
		return errors.Join(err, unix.Close(fd))
	}},
	{"io_uring", common, func(place) error {
		var params [128]byte
		fd, _, errno := syscall.RawSyscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
		if errno != 0 {
			return errno
		}
		return syscall.Close(int(fd))
	}},
	{"bpf", common, func(place) error {
		if _, _, errno := syscall.RawSyscall(unix.SYS_BPF, 0, 0, 0); errno == syscall.EPERM {
			return errno
		}
		return nil
	}},
	{"a setuid program", common, func(place) error {
		status, err := os.ReadFile("/proc/self/status")
		if err == nil && strings.Contains(string(status), "NoNewPrivs:\t1") {
			err = errors.New("no_new_privs is set")
		}
		return err
	}},
	{"rights in its namespaces", asRoot, func(place) error {
		var rights [2]unix.CapUserData
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		if err := unix.Capget(&header, &rights[0]); err != nil {
			return err
		}
		if rights[0].Permitted&(1<<unix.CAP_SYS_ADMIN|1<<unix.CAP_NET_ADMIN|1<<unix.CAP_SETPCAP) == 0 {
			return errors.New("it has none")
		}
		return nil
	}},
	{"open files of the one that starts it", common, func(place) error {
		for fd := 3; fd < 256; fd++ {
			flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
			if err == nil && flags&unix.FD_CLOEXEC == 0 {
				return nil
			}
		}
		return errors.New("none is open")
	}},
	{"type into a terminal outside (TIOCSTI)", asRoot, func(p place) error {
		f, err := os.OpenFile(p.Terminal, os.O_RDONLY|syscall.O_NOCTTY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		letter := byte('x')
		if _, _, errno := syscall.Syscall(unix.SYS_IOCTL, f.Fd(), unix.TIOCSTI,
			uintptr(unsafe.Pointer(&letter))); errno != 0 {
			return errno
		}
		return nil
	}},
	{"change a setting of the kernel", asRoot, func(place) error {
		const setting = "/proc/sys/kernel/core_pattern"
		text, err := os.ReadFile(setting)
		if err != nil {
			return err
		}
		return os.WriteFile(setting, text, 0)
	}},
	{"a gigabyte of memory, past a limit", common, func(place) error {
		_, err := unix.Mmap(-1, 0, 1<<30, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		return err
	}},
	{"a large file, past a limit", common, func(p place) error {
		signal.Ignore(syscall.SIGXFSZ)
		return os.Truncate(p.Mine+"/large", 1<<30)
	}},
	{"many open files, past a limit", common, func(p place) error {
		for range 500 {
			if _, err := syscall.Open(p.Mine, syscall.O_RDONLY, 0); err != nil {
				return err
			}
		}
		return nil
	}},
	{"many files on the disk", possible, func(p place) error {
		for i := range 500 {
			if err := os.WriteFile(p.Mine+"/"+strconv.Itoa(i), nil, 0o600); err != nil {
				return err
			}
		}
		return nil
	}},
	{"shared memory", mounts, func(p place) error { return reads(p.Shared) }},
}

func reads(path string) error {
	text, err := os.ReadFile(path)
	if err == nil && len(text) == 0 {
		err = errors.New("it is empty")
	}
	return err
}

func dials(network, address string) error {
	c, err := net.DialTimeout(network, address, 10*time.Second)
	if err != nil {
		return err
	}
	return c.Close()
}

// hears reports whether a server answers a datagram.
func hears(address string) error {
	c, err := net.Dial("udp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Write([]byte("x")); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 1))
	return err
}

// Exit codes of an attack.
const (
	escaped = 0
	refusal = 77
)

func TestMain(m *testing.M) {
	if name := os.Getenv("ATTACK"); name != "" {
		for _, attack := range attacks {
			if attack.name != name {
				continue
			}
			if err := attack.do(in()); err != nil {
				fmt.Println(err)
				os.Exit(refusal)
			}
			os.Exit(escaped)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// Each attack succeeds without a sandbox, so it is a real one, and in none of the two sandboxes.
func TestEscapes(t *testing.T) {
	t.Parallel()
	kernel := Probe("/proc/self/exe")
	if err := (&Policy{}).lacks(&kernel); err != nil {
		t.Skip(err)
	}
	for _, attack := range attacks {
		t.Run(attack.name, func(t *testing.T) {
			t.Parallel()
			if code, said := attackIn(t, attack.name, inNone); code != escaped &&
				(attack.how != asRoot || os.Geteuid() == 0) {
				t.Errorf("without a sandbox: exit code %d: %s", code, said)
			}
			if code, said := attackIn(t, attack.name, inLandlock); code != refusal && attack.how != mounts &&
				attack.how != possible {
				t.Errorf("Landlock and seccomp: exit code %d: %s", code, said)
			} else {
				t.Logf("Landlock and seccomp: %s", said)
			}
			if kernel.Namespaces != nil {
				t.Logf("namespaces are not tried: %v", kernel.Namespaces)
				return
			}
			if code, said := attackIn(t, attack.name, inNamespaces); code != refusal &&
				attack.how != possible {
				t.Errorf("namespaces, too: exit code %d: %s", code, said)
			} else {
				t.Logf("namespaces, too: %s", said)
			}
		})
	}
}

// attackIn runs an attack in a new place.
func attackIn(t *testing.T, name string, in sandboxed) (code int, said string) {
	t.Helper()
	home, err := os.MkdirTemp("", "a") //nolint:usetesting // short, for the paths of sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	here := place{Mine: home + "/mine", Outside: home + "/outside", Hidden: home + "/hidden"}
	for _, dir := range []string{here.Mine + "/.git/hooks", here.Mine + "/m", here.Outside, here.Hidden} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	shared, err := os.CreateTemp(sharedMemory, "runnel-test-")
	if err != nil {
		t.Fatal(err)
	}
	_ = shared.Close()
	t.Cleanup(func() { _ = os.Remove(shared.Name()) })
	for _, file := range []string{
		here.Outside + "/file", here.Hidden + "/key", shared.Name(),
		here.Mine + "/.git/hooks/pre-commit", here.Mine + "/.envrc", here.Mine + "/runnel.yaml",
		here.Mine + "/.bashrc", here.Mine + "/large",
	} {
		if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tcp := listen(t, "tcp", "127.0.0.1:0")
	listen(t, "unix", here.Outside+"/socket")
	listen(t, "unix", "@"+here.Outside)
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = udp.Close() })
	go func() { // ends with the test
		for buffer := make([]byte, 1); ; {
			_, from, err := udp.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = udp.WriteTo(buffer, from)
		}
	}()
	master, terminal, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(master.Close(), terminal.Close()) })
	victim := exec.Command("/bin/sleep", "600")
	victim.Dir = here.Outside
	victim.Env = []string{"SECRET=x"}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = victim.Process.Kill(); _ = victim.Wait() })
	cmd := exec.Command("/proc/self/exe")
	cmd.Dir = here.Mine
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Env = []string{
		"ATTACK=" + name, "MINE=" + here.Mine, "OUTSIDE=" + here.Outside, "HIDDEN=" + here.Hidden,
		"SHARED=" + shared.Name(),
		"TCP=" + tcp, "UDP=" + udp.LocalAddr().String(), "VICTIM=" + strconv.Itoa(victim.Process.Pid),
		"TERMINAL=" + terminal.Name(), "PATH=" + os.Getenv("PATH"), "HOME=" + home,
	}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := in(cmd, here); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode(), strings.TrimSpace(out.String())
}

// sandboxed starts an attack's command in a sandbox for a place.
type sandboxed func(cmd *exec.Cmd, here place) error

// inNone has a file open that the tests' own process leaves to its children.
func inNone(cmd *exec.Cmd, _ place) error {
	cmd.ExtraFiles = []*os.File{os.Stderr}
	return cmd.Start()
}

func inLandlock(cmd *exec.Cmd, here place) error { return startIn(cmd, here, false) }

func inNamespaces(cmd *exec.Cmd, here place) error { return startIn(cmd, here, true) }

func startIn(cmd *exec.Cmd, here place, namespaces bool) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	p := &Policy{
		Write:  []string{here.Mine},
		Hide:   []string{here.Hidden},
		Limits: Limits{Memory: 512 << 20, Files: 256, FileSize: 64 << 20},
	}
	for _, name := range RunsLater {
		p.Keep = append(p.Keep, here.Mine+"/"+name)
	}
	s, err := (&order{Policy: p, Path: program, Argv: cmd.Args, Namespaces: namespaces}).
		wrap(cmd, "/proc/self/exe")
	if err != nil {
		return err
	}
	return s.Started(cmd.Start())
}

func listen(t *testing.T, network, address string) string {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}
