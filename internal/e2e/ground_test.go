//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Hard ground: several runnels on one state, under the race detector, and everything that can go wrong around
// them. make hostile does it for two hours. A seed gives the same operations again, as far as processes
// allow.
const (
	hostileTimeVariable = "RUNNEL_HOSTILE_TIME" // how long; without it the test is skipped
	hostileSeedVariable = "RUNNEL_HOSTILE_SEED"
	// hostileGroundVariable is set in the process that plays: the folder that was prepared for it.
	hostileGroundVariable = "RUNNEL_HOSTILE_GROUND"
)

const (
	groundDisk    = "disk"   // the state's own disk, a small one where one may be mounted
	groundProgram = "runnel" // built with the race detector and the clock below
	groundDriver  = "driver" // the test binary
	groundClock   = "clock"
	// groundDiskSize has room for what the tasks of a round leave, and can be filled in a moment.
	groundDiskSize = "96m"
)

// TestHostileGround prepares the ground and plays on it in a process of its own: with a disk of its own and
// as a user of its own, who alone uses up what a user may have, where that is allowed.
func TestHostileGround(t *testing.T) {
	length := os.Getenv(hostileTimeVariable)
	if length == "" {
		t.Skipf("without %s: make hostile runs it", hostileTimeVariable)
	}
	lasts, err := time.ParseDuration(length)
	if err != nil {
		t.Fatalf("%s: %v", hostileTimeVariable, err)
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(hostileSeedVariable); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", hostileSeedVariable, err)
		}
	}
	if dir := os.Getenv(hostileGroundVariable); dir != "" {
		playHostile(t, dir, seed, lasts)
		return
	}
	dir, err := os.MkdirTemp("", "runnel-hostile") //nolint:usetesting // the other user could not enter what is around t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for _, sub := range []string{groundDisk, "tmp"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	buildWithClock(t, dir)
	copyFile(t, executable, filepath.Join(dir, groundDriver))

	const mount = `mount -t tmpfs -o size=` + groundDiskSize + `,mode=0777 none "$0/` + groundDisk +
		`" && exec "$@"`
	ways := [][]string{{"unshare", "-Urm", "sh", "-c", mount, dir}, {"env"}}
	if os.Geteuid() == 0 {
		const user = 61000 // some number that nobody has
		if out, err := exec.Command("chown", "-R", strconv.Itoa(user), dir).CombinedOutput(); err != nil {
			t.Logf("%v %s", err, out)
		}
		ways = append([][]string{{"unshare", "-m", "sh", "-c", mount, dir, "setpriv",
			fmt.Sprint("--reuid=", user), fmt.Sprint("--regid=", user), "--clear-groups"}}, ways...)
	}
	for _, way := range ways {
		in := func(args ...string) *exec.Cmd {
			cmd := exec.Command(way[0], append(way[1:len(way):len(way)], args...)...)
			cmd.Env = append(os.Environ(), hostileGroundVariable+"="+dir,
				fmt.Sprint(hostileSeedVariable, "=", seed), "TMPDIR="+filepath.Join(dir, "tmp"))
			return cmd
		}
		driver := filepath.Join(dir, groundDriver)
		if out, err := in(driver, "-test.run=^TestProgramIsBuilt$").CombinedOutput(); err != nil {
			t.Logf("not by %s: %v %s", way[0], err, out)
			continue
		}
		cmd := in(driver, "-test.v", "-test.timeout=0", "-test.run=^"+t.Name()+"$")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			t.Errorf("%v\n%s=%d %s=%s make hostile", err, hostileSeedVariable, seed,
				hostileTimeVariable, length)
		}
		return
	}
	t.Error("the test binary cannot be started again")
}

// TestProgramIsBuilt holds, on a ground, that its user can start the program and read the schemas.
func TestProgramIsBuilt(t *testing.T) {
	if dir := os.Getenv(hostileGroundVariable); dir != "" {
		if out, err := exec.Command(filepath.Join(dir, groundProgram), "version").
			CombinedOutput(); err != nil {
			t.Errorf("%v %s", err, out)
		}
	}
	schemaOf(t, newestHandshake)
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// clockSource is added to each package whose sources ask for the time. The file CLOCK is all runnels' wall
// clock: by how many seconds it has been moved. The monotonic clock goes on, as when a user sets the
// time.
const clockSource = `package PACKAGE

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

var movedClock = func() *atomic.Int64 {
	fd, err := syscall.Open("CLOCK", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		panic(err)
	}
	defer syscall.Close(fd)
	page, err := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	return (*atomic.Int64)(unsafe.Pointer(&page[0]))
}()

func movedNow() time.Time {
	t := time.Now()
	const nanoBits = 30 // of a time.Time with a monotonic part: the seconds of the wall clock stand above them
	*(*uint64)(unsafe.Pointer(&t)) += uint64(movedClock.Load()) << nanoBits
	return t
}
`

var asksTime = regexp.MustCompile(`\btime\.Now\b`)

// buildWithClock builds the program with the race detector, and with a wall clock that the driver can move:
// nothing of that stands in the program's own sources.
func buildWithClock(t *testing.T, dir string) {
	t.Helper()
	clock := filepath.Join(dir, groundClock)
	if err := os.WriteFile(clock, make([]byte, 8), 0o600); err != nil {
		t.Fatal(err)
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	put := func(name, source string) {
		file := filepath.Join(dir, fmt.Sprintf("source-%d.go", len(overlay.Replace)))
		if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[name] = file
	}
	list, err := exec.Command("go", "list", "-deps", "-f",
		`{{if .Module}}{{if .Module.Main}}{{.Name}}{{range .GoFiles}} {{$.Dir}}/{{.}}{{end}}{{end}}{{end}}`,
		".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(list)) {
		files := strings.Fields(line)
		if len(files) == 0 {
			continue
		}
		asks := false
		for _, file := range files[1:] {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if asksTime.Match(source) {
				asks = true
				put(file, asksTime.ReplaceAllString(string(source), "movedNow")+"\nvar _ time.Time\n")
			}
		}
		if asks {
			put(filepath.Join(filepath.Dir(files[1]), "moved_clock.go"),
				strings.NewReplacer("PACKAGE", files[0], "CLOCK", clock).Replace(clockSource))
		}
	}
	encoded, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, encoded, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-race", "-overlay", file, "-o",
		filepath.Join(dir, groundProgram), ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
}
