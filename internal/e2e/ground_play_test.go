//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// groundSteps is how many operations a round has; after it everything is mended and looked at.
	groundSteps = 120
	// groundPause is how long a step waits for the next, at most.
	groundPause = 100 * time.Millisecond
	// groundPatience is how long what must come may take once nothing is wrong any more: everything here is
	// slow.
	groundPatience = 5 * time.Minute
	// groundIdle is how long a command may be silent that prints all the time.
	groundIdle = 5 * time.Second
)

// ground is where a driver does what it likes: some runnels on one state, on a small disk, with a clock.
//
// One goroutine drives; each client has one that reads and one that writes.
type ground struct {
	t     *testing.T
	dir   string
	seed  uint64
	began time.Time

	clock   *atomic.Int64 // seconds by which the runnels' wall clock is moved
	highest time.Time     // that the wall clock has shown
	slots   []*slot
	tasks   []*groundTask
	config  string // file
	metrics string // address of the first runnel's
	first   resources

	faults []*fault // those that are on now
	round  int
	counts map[string]int

	cancelled map[string]bool // task ids, at the end of a round
}

// slot is a place for one runnel after the other.
type slot struct {
	number   int
	owner    string
	restarts int
	c        *groundClient
	stopped  bool
}

// fault is something that is wrong until a step.
type fault struct {
	until int
	mend  func()
}

func playHostile(t *testing.T, dir string, seed uint64, lasts time.Duration) {
	g := &ground{t: t, dir: dir, seed: seed, began: time.Now(),
		clock:  mapClock(t, filepath.Join(dir, groundClock)),
		config: filepath.Join(dir, "tmp", "runnel.yaml"), metrics: freeAddress(t), counts: map[string]int{},
		cancelled: map[string]bool{}}
	say("%s=%d, for %v, as user %d, disk %s", hostileSeedVariable, seed, lasts, os.Getuid(), g.disk())
	g.writeConfig(0)
	for i, owner := range []string{"alice", "alice", "bob", "bob"} {
		s := &slot{number: i, owner: owner}
		g.slots = append(g.slots, s)
		g.start(s)
	}
	step := 0
	for ; time.Since(g.began) < lasts && !t.Failed(); g.round++ {
		for range groundSteps {
			g.step(step)
			step++
			if t.Failed() {
				break
			}
		}
		g.calm()
	}
	g.end()
	say("%v: %d rounds, %d operations, %v", time.Since(g.began).Round(time.Second), g.round, step, g.counts)
}

func say(format string, args ...any) { _, _ = fmt.Fprintf(os.Stdout, format+"\n", args...) }

func mapClock(t *testing.T, file string) *atomic.Int64 {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	page, err := unix.Mmap(int(f.Fd()), 0, 8, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	return (*atomic.Int64)(unsafe.Pointer(&page[0]))
}

// now is the wall clock as the runnels see it.
func (g *ground) now() time.Time {
	now := time.Now().Round(0).Add(time.Duration(g.clock.Load()) * time.Second)
	if now.After(g.highest) {
		g.highest = now
	}
	return now
}

func (g *ground) disk() string  { return filepath.Join(g.dir, groundDisk) }
func (g *ground) state() string { return filepath.Join(g.disk(), "state") }

// groundLines writes what the self-test tool stream writes. It says nothing else, also when it cannot start
// sleep.
var groundLines = `exec 2>/dev/null; set -e; i=0; while [ $i -lt $count ]; do printf "chunk %06d ` +
	strings.Repeat("x", knownBytes-14) +
	`\n" $i; i=$((i+1)); if [ $((i % every)) = 0 ]; then sleep 0.05; fi; done`

const groundConfig = `
tasks: {immediateWait: 20ms, syncWait: %[2]s, maxLive: 10000, maxTtl: 200h}
partials: {pace: %[3]s}
limits: {drain: 1s}
tools:
  lines: {shell: %[1]q, input: {count: {type: integer}, every: {type: integer}}}
  detached: {shell: %[1]q, input: {count: {type: integer}, every: {type: integer}}, detach: true}
  family: {shell: 'setsid sleep 601 & sleep 601 & (trap "" TERM HUP; sleep 601) & echo up; wait', grace: 300ms}
  chatter: {shell: 'exec 2>/dev/null; while echo on; do sleep 0.05 || exit; done', idleTimeout: %[10]v, grace: 300ms}
  stubborn: {shell: 'trap "" TERM; echo up; sleep 601; sleep 601', grace: 200ms}
  noise: {shell: 'head -c 20000 /dev/urandom; printf "\033]0;title\007\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n"'}
  reloaded%[4]d: {command: [echo, "%[5]d"]}
upstreams:
  liar: {command: [%[6]q], env: {%[7]s: "%[8]d", GORACE: atexit_sleep_ms=0}, prefix: liar_, restart: always, hungAfter: 5s}
  steady: {command: [%[9]q, --selftest, --state, memory, --owner, steady], env: {RUNNEL_CONFIG: /dev/null}, prefix: steady_, restart: always}
`

func (g *ground) writeConfig(n uint64) {
	text := fmt.Sprintf(groundConfig, groundLines, []string{"0s", "300ms", "50s"}[n%3],
		[]string{"0s", "5ms", "50ms"}[n/3%3], n%5, n,
		filepath.Join(g.dir, groundDriver), asLiar, g.seed, filepath.Join(g.dir, groundProgram), groundIdle)
	g.replaceConfig(text)
}

func (g *ground) replaceConfig(text string) {
	if err := os.WriteFile(g.config+".new", []byte(text), 0o600); err != nil {
		g.t.Fatal(err)
	}
	if err := os.Rename(g.config+".new", g.config); err != nil {
		g.t.Fatal(err)
	}
}

// mark stands in the environment of a runnel and of what it starts.
func (s *slot) mark() string { return fmt.Sprintf("GROUND_SLOT=%d.%d.", s.number, s.restarts) }

func (g *ground) start(s *slot) {
	args := []string{"--config", g.config, "--selftest", "--state", g.state(), "--owner", s.owner,
		"--fallback-tools", "always",
		"--max-in-flight", "1000", "--log-level", "warn"}
	if s.number == 0 {
		args = append(args, "--metrics", g.metrics)
	}
	cmd := exec.Command(filepath.Join(g.dir, groundProgram), args...)
	s.restarts++
	cmd.Env = append(environ(g.t), s.mark(), "GORACE=atexit_sleep_ms=0 halt_on_error=0")
	s.c = g.newClient(s, cmd)
	s.stopped = false
	// Its first command makes it keep some threads: a Go program that has none left ends when it can have no
	// more.
	s.c.patientCall("tools/call", map[string]any{"name": "lines",
		"arguments": map[string]any{"count": 0, "every": 1}})
}

// step does one thing. What it does is drawn from the seed and the step's number alone: what came of the
// steps before changes nothing.
func (g *ground) step(n int) {
	rng := rand.New(rand.NewPCG(g.seed, uint64(n)))
	for i := 0; i < len(g.faults); i++ {
		if f := g.faults[i]; f.until <= n {
			f.mend()
			g.faults = append(g.faults[:i], g.faults[i+1:]...)
			i--
		}
	}
	total := 0
	for _, o := range operations {
		total += o.weight
	}
	s := g.slots[rng.IntN(len(g.slots))]
	at := rng.IntN(total)
	for _, o := range operations {
		if at -= o.weight; at < 0 {
			g.counts[o.name]++
			o.do(g, s, rng, n)
			break
		}
	}
	time.Sleep(time.Duration(rng.Int64N(int64(groundPause))))
	for _, s := range g.slots {
		s.c.take()
		g.lives(s)
	}
	g.now()
}

// lives holds that a runnel that nobody ended has not ended.
func (g *ground) lives(s *slot) {
	select {
	case <-s.c.gone:
		g.t.Errorf("the runnel in slot %d has ended by itself\nstderr:\n%s", s.number, &s.c.log)
	default:
	}
}

// wrong makes something wrong for some steps. All that runs now may fail for it.
func (g *ground) wrong(n int, rng *rand.Rand, mend func()) {
	g.trouble(func(*groundTask) bool { return true })
	g.faults = append(g.faults, &fault{until: n + 1 + rng.IntN(15), mend: func() {
		g.trouble(func(*groundTask) bool { return true })
		mend()
	}})
}

func (g *ground) trouble(which func(*groundTask) bool) {
	for _, k := range g.tasks {
		if which(k) {
			k.troubled = true
		}
	}
}

// limit lowers a soft limit of a running process.
func (g *ground) limit(s *slot, n int, rng *rand.Rand, resource int, to uint64) {
	pid := s.c.cmd.Process.Pid
	var old unix.Rlimit
	if err := unix.Prlimit(pid, resource, nil, &old); err != nil {
		g.t.Errorf("reading a limit: %v", err)
		return
	}
	lower := unix.Rlimit{Cur: min(to, old.Max), Max: old.Max}
	if err := unix.Prlimit(pid, resource, &lower, nil); err != nil {
		g.t.Errorf("setting a limit: %v", err)
		return
	}
	g.wrong(n, rng, func() {
		for _, pid := range processes(childMark) { // those that it has started have inherited the limit
			_ = unix.Prlimit(pid, resource, &unix.Rlimit{Cur: old.Max, Max: old.Max}, nil)
		}
	})
}

// threads is how many the user has: what RLIMIT_NPROC counts.
func threads() (n uint64) {
	statuses, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, file := range statuses {
		status, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(status), fmt.Sprintf("\nUid:\t%d\t", os.Getuid())) {
			continue
		}
		if _, rest, ok := strings.Cut(string(status), "\nThreads:\t"); ok {
			text, _, _ := strings.Cut(rest, "\n")
			count, _ := strconv.ParseUint(text, 10, 64)
			n += count
		}
	}
	return n
}

// fill leaves some bytes of room on the disk.
func (g *ground) fill(room uint64) (file string) {
	file = filepath.Join(g.disk(), "fill")
	f, err := os.Create(file)
	if err != nil {
		return file
	}
	defer f.Close()
	var fs unix.Statfs_t
	if err := unix.Statfs(g.disk(), &fs); err != nil {
		g.t.Fatal(err)
	}
	free := fs.Bavail * uint64(fs.Bsize)
	if free > 1<<30 {
		return file // it is no disk of our own
	}
	zeros := make([]byte, 64<<10)
	for free > room {
		n, err := f.Write(zeros[:min(uint64(len(zeros)), free-room)])
		if err != nil {
			return file
		}
		free -= uint64(n)
	}
	return file
}

// mendAll ends all that is wrong.
func (g *ground) mendAll() {
	for _, f := range g.faults {
		f.mend()
	}
	g.faults = nil
}

func (g *ground) signal(s *slot, signal syscall.Signal) {
	if err := s.c.cmd.Process.Signal(signal); err != nil {
		g.t.Errorf("%v: %v\nstderr:\n%s", signal, err, &s.c.log)
	}
}

// processes are those whose environment has a mark.
func processes(mark string) (pids []int) {
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range environs {
		env, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(env), mark) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids
}

func cmdline(pid int) string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.ReplaceAll(strings.Trim(string(line), "\x00"), "\x00", " ")
}

// rawJSON marshals what always can be.
func rawJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
