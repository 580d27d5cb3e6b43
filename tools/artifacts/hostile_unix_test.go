//go:build unix

package artifacts_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"runnel/internal/system"
	"runnel/tools/toolstest"
)

// What is not a regular file of the directory, or changes, is left out: nothing of it is read, nothing blocks,
// and the result says why.
func TestHostileFiles(t *testing.T) {
	outside := t.TempDir()
	write(t, outside, "secret.png", []byte("of the user"))
	runner := newRunner(t)
	for range 2 {
		dir := t.TempDir()
		var growing sync.WaitGroup
		stop := make(chan struct{})
		m := &maker{dir: dir, rules: rules(t, `{files: ["**"], maxBytes: 64MiB}`), make: func() {
			link := func(to, name string) {
				if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
					t.Error(err)
				}
			}
			link(filepath.Join(outside, "secret.png"), "1link.png")
			link(outside, "2dir")
			if err := syscall.Mkfifo(filepath.Join(dir, "3fifo.png"), 0o600); err != nil {
				t.Error(err)
			}
			listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, "4socket"))
			if err != nil {
				t.Error(err)
			} else {
				t.Cleanup(func() { _ = listener.Close() })
			}
			grow := filepath.Join(dir, "5grows")
			write(t, dir, "5grows", make([]byte, 8<<20))
			growing.Go(func() {
				f, err := os.OpenFile(grow, os.O_APPEND|os.O_WRONLY, 0)
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = f.Close() }()
				for size := 0; size < 16<<20; size += 64 {
					select {
					case <-stop:
						return
					default:
						_, _ = f.Write(make([]byte, 64))
						time.Sleep(10 * time.Microsecond)
					}
				}
			})
			write(t, dir, "6new\nline", []byte("x"))
			link("..", "7up")
			write(t, dir, "8fine", []byte("x"))
		}}
		got := summary(items(t, toolstest.CallBy(t, runner, m, nil).Content))
		close(stop)
		growing.Wait()
		want := `8fine
[left out: "1link.png": it is a symbolic link]
[left out: "2dir": it is a symbolic link]
[left out: "3fifo.png": it is a FIFO]
[left out: "4socket": it is a socket]
[left out: "5grows": it changed while it was read]
[left out: "6new\nline": its name has control characters, a backslash, or is not UTF-8]
[left out: "7up": it is a symbolic link]`
		if got != want {
			t.Errorf("got\n%s", got)
		}
		if got := stored(t, runner, m.id, "8fine"); got != "x" {
			t.Errorf("%q", got)
		}
		set, err := runner.Files(t.Context(), m.id)
		if err != nil || len(set.Files) != 1 {
			t.Errorf("%+v, %v", set, err)
		}
		if _, err := os.Stat(fmt.Sprintf("%s/secret.png", outside)); err != nil {
			t.Error(err)
		}
	}
}

// A device is left out, too: reading one may never end, or change what it stands for.
func TestDevice(t *testing.T) {
	dir, runner := t.TempDir(), newRunner(t)
	device := filepath.Join(dir, "zero.png")
	if out, err := exec.Command("mknod", device, "c", "1", "5").CombinedOutput(); err != nil {
		t.Skipf("only root can make a device: mknod: %v, %s", err, out)
	}
	m := &maker{dir: dir, rules: rules(t, `"*.png"`), make: func() {
		_ = os.Remove(device)
		if out, err := exec.Command("mknod", device, "c", "1", "5").CombinedOutput(); err != nil {
			t.Errorf("mknod: %v, %s", err, out)
		}
	}}
	for range 2 {
		got := summary(items(t, toolstest.CallBy(t, runner, m, nil).Content))
		if want := `[left out: "zero.png": it is a device]`; got != want {
			t.Errorf("got\n%s", got)
		}
	}
}

// A command in a sandbox has runnel read nothing that it may not read itself: neither through a link in the
// place of a directory, nor by moving the directory above it.
func TestFilesThatACommandDidNotMake(t *testing.T) {
	runner := newRunner(t)
	dir := t.TempDir()
	for _, name := range []string{"hidden", "above/hidden"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, dir, name+"/key", []byte("of the user"))
	}
	if _, ok := system.ChangeTime(must(os.Lstat(dir))); ok {
		time.Sleep(2100 * time.Millisecond) // the slack that the clock of a file system has
	}
	for range 2 {
		m := &maker{dir: dir, rules: rules(t, `["report/**", "moved/*/*"]`), make: func() {
			_ = os.Remove(filepath.Join(dir, "report"))
			if err := os.Symlink("hidden", filepath.Join(dir, "report")); err != nil {
				t.Error(err)
			}
			_ = os.Rename(filepath.Join(dir, "above"), filepath.Join(dir, "moved"))
		}}
		got := summary(items(t, toolstest.CallBy(t, runner, m, nil).Content))
		if lines := strings.Split(got, "\n"); slices.Contains(lines, "report/key") ||
			slices.Contains(lines, "moved/hidden/key") {
			t.Errorf("got\n%s", got)
		}
		_ = os.Rename(filepath.Join(dir, "moved"), filepath.Join(dir, "above"))
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
