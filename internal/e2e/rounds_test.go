//go:build linux

package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"runnel/internal/natstest"
)

// Rounds of faults of a fleet: three NATS servers, two fronts and three workers, each a process of its own,
// and tasks that stream all the time while one of them is killed or cut off. make fleet plays 200 rounds,
// make race a few. A seed gives the same faults again, as far as processes allow.
const (
	fleetRoundsVariable = "RUNNEL_FLEET_ROUNDS"
	fleetSeedVariable   = "RUNNEL_FLEET_SEED"
)

const (
	// fleetCalm is after how many rounds everything ends and is looked at.
	fleetCalm = 20
	// fleetTasks is how many tasks are kept running: more than there are slots, so that some wait.
	fleetTasks   = 10
	fleetFronts  = 2
	fleetWorkers = 3
	fleetSlots   = 3
	// fleetPace is how often a command of a task writes, in seconds as sleep takes them.
	fleetPace = "0.1"
	// fleetStall is how long a task's client may see nothing until it is called a stall.
	fleetStall = 300 * time.Millisecond
)

// fleet is a driver of rounds. One goroutine drives; each front's client has one that reads and one that
// writes.
type fleet struct {
	*ground // its clients, and what holds of a task always; its slots are those of the fronts
	cluster *natstest.Cluster
	program string
	env     []string
	runs    string // file: the commands write here that they begin and end

	workers   []*slot
	working   []*exec.Cmd // by worker
	faults    []faultAt
	rounds    int // to play
	made      int // calls
	elections []time.Duration
	ended     map[string]int
	spared    *groundTask // of killTwice: nobody cancels it

	stalls stalls
}

// faultAt is what was wrong, and when.
type faultAt struct {
	kind              string
	at, again, mended time.Time // again: of a second kill
}

// fleetFault is something that goes wrong; mend ends it.
type fleetFault struct {
	kind string
	do   func(f *fleet, rng *rand.Rand) (mend func())
}

// fleetFaults are drawn from in turn, so that a short run has one of the first ones each.
var fleetFaults = []fleetFault{
	{"leader killed", (*fleet).killLeader},
	{"node cut off", (*fleet).cutOff},
	{"front killed", (*fleet).killFront},
	{"worker killed", (*fleet).killWorker},
}

// fleetTwice takes the time in which two leases run out: a long run has one among fleetCalm rounds.
var fleetTwice = fleetFault{"worker killed twice", (*fleet).killTwice}

func TestFleetRounds(t *testing.T) {
	t.Parallel()
	rounds := 3
	if text := os.Getenv(fleetRoundsVariable); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", fleetRoundsVariable, err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(fleetSeedVariable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", fleetSeedVariable, err)
		}
	}
	t.Logf("%s=%d %s=%d", fleetSeedVariable, seed, fleetRoundsVariable, rounds)
	f := newFleet(t, seed)
	f.rounds = rounds
	for n := range rounds {
		if f.play(n); (n+1)%fleetCalm == 0 || n+1 == rounds {
			f.calm(n + 1)
		}
		if t.Failed() {
			t.Fatalf("in round %d: %s=%d", n, fleetSeedVariable, seed)
		}
	}
	f.end()
}

func newFleet(t *testing.T, seed uint64) *fleet {
	dir := t.TempDir()
	f := &fleet{
		ground: &ground{t: t, dir: dir, seed: seed, began: time.Now(), clock: &atomic.Int64{},
			cancelled: map[string]bool{}},
		runs: filepath.Join(dir, "runs"), ended: map[string]int{},
		stalls: stalls{last: map[string]time.Time{}},
	}
	f.cluster = natstest.Start(t, 3, environ(t))
	f.program = builtProgram(t)
	f.env = append(environ(t), "RUNNEL_STATE="+f.cluster.URL()+"?replicas=3", noSleepAtExit)
	// The lock holds as long as any process of the command lives: a process that finds it taken runs
	// together with another one. A command does not end while there is a file hold.N.
	command := fmt.Sprintf(`exec 9>%[1]s/lock.$n; flock -n 9 || echo "overlap $n $$" >> %[1]s/runs; echo "begin $n $$" >> %[1]s/runs; `+
		`i=0; while [ $i -lt $count ]; do printf "chunk %%06d\n" $i; i=$((i+1)); sleep %[2]s; done; while [ -e %[1]s/hold.$n ]; do sleep %[2]s; done; echo "end $n $$" >> %[1]s/runs`, dir, fleetPace)
	const input = "input: {n: {type: integer}, count: {type: integer}}, runs: builds"
	f.put("front.yaml", fmt.Sprintf("tasks: {immediateWait: 20ms}\ntools:\n  once: {%s}\n  again: {%[1]s, retry: 20}\n", input))
	f.put("worker.yaml", fmt.Sprintf("tools:\n  once: {%s, shell: %q}\n  again: {%[1]s, shell: %[2]q}\n",
		input, command))
	for i := range fleetFronts {
		f.slots = append(f.slots, &slot{number: i, owner: "local"})
		f.startFront(f.slots[i])
	}
	f.working = make([]*exec.Cmd, fleetWorkers)
	for i := range fleetWorkers {
		f.workers = append(f.workers, &slot{number: fleetFronts + i})
		f.startWorker(i)
	}
	return f
}

func (f *fleet) put(file, text string) {
	if err := os.WriteFile(filepath.Join(f.dir, file), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) command(s *slot, args ...string) *exec.Cmd {
	s.restarts++
	cmd := exec.Command(f.program, append(args, "--log-level", "warn")...)
	cmd.Env = append(slices.Clone(f.env), s.mark())
	return cmd
}

func (f *fleet) startFront(s *slot) {
	s.c = f.newClient(s, f.command(s, "--config", filepath.Join(f.dir, "front.yaml"),
		"--max-in-flight", "1000"))
	s.c.partial.Store(&f.stalls)
}

func (f *fleet) startWorker(i int) {
	cmd := f.command(f.workers[i], "work", "--config", filepath.Join(f.dir, "worker.yaml"), "--slots",
		strconv.Itoa(fleetSlots))
	log := &syncBuffer{}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.working[i] = cmd
	f.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if text := log.String(); broken.MatchString(text) {
			f.t.Errorf("worker %d, stderr:\n%s", i, text)
		} else if f.t.Failed() {
			f.t.Logf("worker %d, stderr:\n%s", i, text)
		}
	})
}

// play lets something go wrong while tasks run. What it does is drawn from the seed and the round's number
// alone.
func (f *fleet) play(n int) {
	rng := rand.New(rand.NewPCG(f.seed, uint64(n)))
	fault := fleetFaults[n%len(fleetFaults)]
	if f.rounds >= fleetCalm && n%fleetCalm == fleetCalm/2 {
		fault = fleetTwice
	}
	f.run(time.Second+time.Duration(rng.Int64N(int64(time.Second))), rng)
	f.faults = append(f.faults, faultAt{kind: fault.kind, at: time.Now()})
	mend := fault.do(f, rng)
	f.run(time.Second+time.Duration(rng.Int64N(int64(2*time.Second))), rng)
	mend()
	f.cluster.Whole() // one fault at a time: two nodes of three can do nothing
	f.faults[len(f.faults)-1].mended = time.Now()
}

// run keeps tasks running for a while, and cancels some.
func (f *fleet) run(length time.Duration, rng *rand.Rand) {
	for until := time.Now().Add(length); ; time.Sleep(20 * time.Millisecond) {
		var open []*groundTask
		for _, k := range f.tasks {
			if _, told := k.client.toldEnd(k.id); !told && !k.client.ended.Load() {
				open = append(open, k)
			}
		}
		if len(open) < fleetTasks {
			f.call(f.slots[rng.IntN(fleetFronts)], []string{"once", "again"}[rng.IntN(2)], 1+rng.IntN(60))
		} else if k := open[rng.IntN(len(open))]; rng.IntN(200) == 0 && k.known() && k != f.spared {
			k.cancelled = true
			f.slots[rng.IntN(fleetFronts)].c.get(k, "tasks/cancel")
		}
		for _, s := range f.slots {
			s.c.take()
			f.lives(s)
		}
		if time.Now().After(until) {
			return
		}
	}
}

func (f *fleet) call(s *slot, tool string, chunks int) *groundTask {
	k := &groundTask{slot: s, owner: s.owner, since: time.Now(), tool: tool, number: f.made, chunks: chunks,
		ttl: 3600_000}
	f.made++
	s.c.call(k, "tools/call", map[string]any{"name": k.tool,
		"arguments": map[string]any{"n": k.number, "count": k.chunks}, "task": map[string]any{"ttl": k.ttl}})
	return k
}

// The streams of an owner: a fault of each one's leader is another one.
var fleetStreams = []string{"runnel_local", "runnel-work_local", "runnel-alive_local"}

func (f *fleet) killLeader(rng *rand.Rand) (mend func()) {
	stream := fleetStreams[rng.IntN(len(fleetStreams))*rng.IntN(2)] // most often that of the tasks
	leader, at := f.cluster.Leader(stream), time.Now()
	f.cluster.Kill(leader)
	f.cluster.Elected(stream, leader)
	f.elections = append(f.elections, time.Since(at))
	return func() { f.cluster.Restart(leader) }
}

// cutOff cuts the leader or any other node off, a third of the times for longer than a process counts as
// alive that nothing is heard of; but not in the short run.
func (f *fleet) cutOff(rng *rand.Rand) (mend func()) {
	node, long := rng.IntN(3), rng.IntN(3) == 0 && f.rounds >= fleetCalm
	if rng.IntN(2) == 0 {
		node = f.cluster.Leader(fleetStreams[0])
	}
	f.cluster.Pause(node)
	return func() {
		if long {
			f.run(25*time.Second, rng)
		}
		f.cluster.Resume(node)
	}
}

func (f *fleet) killFront(rng *rand.Rand) (mend func()) {
	s := f.slots[rng.IntN(fleetFronts)]
	s.c.kill()
	f.startFront(s)
	return func() {}
}

func (f *fleet) killWorker(rng *rand.Rand) (mend func()) {
	f.killOne(rng.IntN(fleetWorkers))
	return func() {}
}

func (f *fleet) killOne(i int) {
	if err := f.working[i].Process.Kill(); err != nil {
		f.t.Error(err)
	}
	_ = f.working[i].Wait()
	f.startWorker(i)
}

// killTwice kills the worker of a task, and then the one that has taken it after that. The task runs until both
// are dead: on a busy machine this driver may get no processor for seconds.
func (f *fleet) killTwice(rng *rand.Rand) (mend func()) {
	hold := fmt.Sprint("hold.", f.made)
	f.put(hold, "")
	f.spared = f.call(f.slots[rng.IntN(fleetFronts)], "again", 60)
	f.killRunner(1, rng)
	return func() {
		f.killRunner(2, rng)
		if err := os.Remove(filepath.Join(f.dir, hold)); err != nil {
			f.t.Error(err)
		}
		f.faults[len(f.faults)-1].again = time.Now()
	}
}

// killRunner kills the worker that runs an attempt of the spared task.
func (f *fleet) killRunner(attempt int, rng *rand.Rand) {
	f.within(fmt.Sprintf("attempt %d of %v begins", attempt, f.spared), func() string {
		f.run(0, rng)
		run := f.readRuns()[f.spared.number]
		if run.begun < attempt {
			return fmt.Sprintf("%+v", run)
		}
		env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", run.pid)) // empty if it has ended
		for i, w := range f.workers {
			if strings.Contains(string(env), w.mark()) {
				f.killOne(i)
				return ""
			}
		}
		return fmt.Sprintf("%+v: no worker runs it", run)
	})
}

// stalls are how long clients saw nothing of tasks that write all the time.
type stalls struct {
	mu   sync.Mutex
	last map[string]time.Time // by task
	all  []stall
}

type stall struct {
	from   time.Time
	length time.Duration
}

// partial notes that something of a task has come.
func (s *stalls) partial(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if last := s.last[id]; !last.IsZero() && now.Sub(last) > fleetStall {
		s.all = append(s.all, stall{last, now.Sub(last)})
	}
	s.last[id] = now
}

// report says for each kind of fault how long the longest stalls were that began with it, or until it was
// repaired.
func (s *stalls) report(faults []faultAt, elections []time.Duration) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	longest := map[string][]time.Duration{}
	each := make([]time.Duration, len(faults))
	several, without := time.Duration(0), time.Duration(0)
	for _, one := range s.all {
		var in []int
		for i, f := range faults {
			if f.mended.After(one.from) && f.at.Before(one.from.Add(one.length)) {
				in = append(in, i)
			}
		}
		switch len(in) {
		case 0:
			without = max(without, one.length)
		case 1:
			each[in[0]] = max(each[in[0]], one.length)
		default:
			several = max(several, one.length)
		}
	}
	for i, f := range faults {
		longest[f.kind] = append(longest[f.kind], each[i])
	}
	var b strings.Builder
	line := func(what string, all []time.Duration) {
		if slices.Sort(all); len(all) > 0 {
			fmt.Fprintf(&b, "%s: %d times, p50 %v, max %v\n", what, len(all),
				all[len(all)/2].Round(10*time.Millisecond), all[len(all)-1].Round(10*time.Millisecond))
		}
	}
	for _, f := range append(slices.Clone(fleetFaults), fleetTwice) {
		line("longest stall at a client, "+f.kind, longest[f.kind])
	}
	line("until another node leads", elections)
	fmt.Fprintf(&b, "longest stall while one fault came after the other: %v, while nothing was wrong: %v\n",
		several.Round(10*time.Millisecond), without.Round(10*time.Millisecond))
	return b.String()
}

// end ends everything: a worker that is told to exits with 0.
func (f *fleet) end() {
	for _, s := range f.slots {
		s.c.ended.Store(true)
		s.c.end()
		s.c.checkLog()
	}
	for i, cmd := range f.working {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			f.t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			f.t.Errorf("worker %d: %v", i, err)
		}
	}
	f.t.Logf("%v: %d faults, %d calls, ends %v\n%s", time.Since(f.began).Round(time.Second), len(f.faults),
		f.made, f.ended, f.stalls.report(f.faults, f.elections))
}

// killedSince returns how many faults killed processes of a kind since a task was called.
func (f *fleet) killedSince(k *groundTask, kind string) (n int) {
	for _, one := range f.faults {
		if strings.HasPrefix(one.kind, kind) && (one.at.After(k.since) || one.again.After(k.since)) {
			n++
		}
	}
	return n
}
