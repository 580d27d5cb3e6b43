//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// groundStart is how long a supervisor may take until it has taken its task: longer than runnel gives it.
const groundStart = 40 * time.Second

// groundFlood is how many times as much some tools write: more than memory keeps of a log, and than a disk
// that is nearly full takes at once.
const groundFlood = 32

// operation is one of the things that can happen. rng is drawn from only in do.
type operation struct {
	name   string
	weight int
	do     func(g *ground, s *slot, rng *rand.Rand, n int)
}

var operations []operation

func init() {
	operations = []operation{
		{"call", 40, (*ground).opCall},
		{"ask", 25, (*ground).opAsk},
		{"foreign", 4, (*ground).opForeign},
		{"nonsense", 4, (*ground).opNonsense},
		{"stall", 4, (*ground).opStall},
		{"kill", 3, (*ground).opKill},
		{"end", 2, (*ground).opEnd},
		{"kill a child", 3, (*ground).opKillChild},
		{"stop", 3, (*ground).opStop},
		{"sleep", 1, (*ground).opSleep},
		{"reload", 4, (*ground).opReload},
		{"full disk", 3, (*ground).opDisk},
		{"no files", 2, (*ground).opNoFiles},
		{"no processes", 2, (*ground).opNoProcesses},
		{"small files", 1, (*ground).opSmallFiles},
		{"clock", 3, (*ground).opClock},
		{"lease", 1, (*ground).opLease},
	}
}

func (g *ground) opCall(s *slot, rng *rand.Rand, n int) {
	count := rng.IntN(1 << rng.IntN(9))
	every := 1 + rng.IntN(20)
	ms := rng.IntN(1500)
	k := &groundTask{slot: s, owner: s.owner, since: time.Now(), troubled: len(g.faults) > 0,
		ttl: []int64{2_000, 3600_000, 3600_000, 24 * 3600_000}[rng.IntN(4)]}
	var arguments map[string]any
	switch which := rng.IntN(15); which {
	case 0, 1, 2:
		if which == 0 {
			count *= groundFlood
		}
		k.tool = "stream"
		k.chunks = count
		k.want = fmt.Sprintf("streamed %d chunks", count)
		arguments = map[string]any{"count": count, "bytes": knownBytes, "intervalMs": rng.IntN(3)}
	case 3, 4:
		k.tool, k.chunks = "lines", count
		arguments = map[string]any{"count": count, "every": every}
	case 5, 6:
		k.tool = "detached"
		k.chunks = count
		k.detached = true
		arguments = map[string]any{"count": count, "every": every}
	case 7:
		k.tool, k.want = "sleep", fmt.Sprintf("slept %d ms", ms)
		arguments = map[string]any{"ms": ms}
	case 8:
		k.tool = "fail"
		k.chunks = count % 40
		k.fails = true
		arguments = map[string]any{"afterChunks": k.chunks, "message": "no luck", "intervalMs": rng.IntN(20),
			"protocol": rng.IntN(2) == 0}
		k.chunks = -1 // chunks of another size
	case 9:
		k.tool = []string{"family", "stubborn"}[rng.IntN(2)]
		k.chunks = -1
		k.endless = true
	case 10:
		k.tool = "panic"
		k.chunks = -1
		k.fails = true
	case 11:
		k.tool, k.chunks = "noise", -1
	case 12:
		k.tool = "liar_work"
		k.chunks = -1
		k.anyEnd = true
		arguments = map[string]any{"how": rng.IntN(16)}
	case 13:
		k.tool = []string{"ask", "steady_ask"}[rng.IntN(2)]
		k.chunks = -1
		k.endless = true
		arguments = map[string]any{"message": "well?", "delayMs": rng.IntN(500)}
	default:
		k.tool = "steady_stream"
		k.chunks = -1
		k.anyEnd = true
		arguments = map[string]any{"count": count, "intervalMs": rng.IntN(20)}
	}
	if arguments == nil {
		arguments = map[string]any{}
	}
	params := map[string]any{"name": k.tool, "arguments": arguments}
	switch way := rng.IntN(10); {
	case way < 7 || k.endless:
		params["task"] = map[string]any{"ttl": k.ttl}
		s.c.call(k, "tools/call", params)
	case way == 7: // a plain one
		s.c.call(k, "tools/call", params)
	case way == 8:
		params["task"] = map[string]any{"ttl": k.ttl,
			"responseModes": []string{"immediate", "streaming", "task"}[:1+rng.IntN(3)]}
		s.c.askOther("tools/call", params)
	default: // stateless
		s.c.call(k, "tools/call", json.RawMessage(inEra(takes, "",
			fmt.Sprintf(`"name":%q,"arguments":%s`, k.tool, rawJSON(arguments)))))
	}
}

// some is a task that a client knows of, nil if there is none.
func (g *ground) some(owner string, mine bool, pick uint64) *groundTask {
	var some []*groundTask
	for _, k := range g.tasks {
		if k.known() && (k.owner == owner) == mine {
			some = append(some, k)
		}
	}
	if len(some) == 0 {
		return nil
	}
	return some[pick%uint64(len(some))]
}

// opAsk asks about a task, also in a process that has not started it.
func (g *ground) opAsk(s *slot, rng *rand.Rand, _ int) {
	how, k := rng.IntN(12), g.some(s.owner, true, rng.Uint64())
	if k == nil || how == 0 {
		s.c.askOther("tasks/list", map[string]any{})
		return
	}
	switch how {
	case 1, 2, 3:
		s.c.get(k, "tasks/get")
	case 4, 5:
		s.c.result(k)
	case 6:
		k.cancelled = true
		s.c.get(k, "tasks/cancel")
	case 7:
		s.c.askOther("resources/read", map[string]any{"uri": "runnel://tasks/" + k.id + "/log"})
	case 8:
		s.c.askOther("tools/call", map[string]any{"name": "get_task_result",
			"arguments": map[string]any{"task_id": k.id, "wait_ms": 100}})
	case 9:
		s.c.askOther("tools/call", map[string]any{"name": "list_tasks",
			"arguments": map[string]any{"all": true}})
	case 10:
		s.c.askOther("resources/subscribe", map[string]any{"uri": "runnel://tasks/" + k.id + "/log"})
	default:
		s.c.askOther("tasks/get", json.RawMessage(inEra(takes, "", fmt.Sprintf(`"taskId":%q`, k.id))))
	}
}

// opForeign asks for another owner's task: it does not exist.
func (g *ground) opForeign(s *slot, rng *rand.Rand, _ int) {
	k, method := g.some(s.owner, false, rng.Uint64()),
		[]string{"tasks/get", "tasks/result", "tasks/cancel"}[rng.IntN(3)]
	if k != nil {
		s.c.foreign(k, method)
	}
}

// opNonsense sends what is no request, or one that cannot be answered well.
func (g *ground) opNonsense(s *slot, rng *rand.Rand, _ int) {
	line := []string{
		`{"jsonrpc":"2.0","id":1`, `nonsense`, `[]`, "\xff\xfe", strings.Repeat("[", 2000),
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":999999}}`,
		`{"jsonrpc":"2.0","id":999,"result":{}}`, `{"jsonrpc":"2.0","method":"no/such","params":{}}`,
	}[rng.IntN(8)]
	s.c.raw(line)
}

// opStall lets a client read nothing for a while.
func (g *ground) opStall(s *slot, rng *rand.Rand, n int) {
	until := n + 1 + rng.IntN(30)
	c := s.c
	c.stall()
	for _, k := range g.tasks {
		k.unread = k.unread || k.client == c
	}
	g.faults = append(g.faults, &fault{until: until, mend: c.resume})
}

// opKill kills a runnel, but never the first. What it ran ends; detached tasks go on.
func (g *ground) opKill(s *slot, rng *rand.Rand, _ int) {
	both := rng.IntN(3) == 0
	for _, s := range g.slots {
		if s.number == 0 || !both && s.number != 1+rng.IntN(len(g.slots)-1) {
			continue
		}
		g.killed(s)
		s.c.kill()
		g.start(s)
	}
}

// killed notes that a runnel ends: its tasks with it.
func (g *ground) killed(s *slot) {
	g.trouble(func(k *groundTask) bool {
		return k.slot == s && (!k.detached || time.Since(k.since) < groundStart)
	})
	s.c.ended.Store(true)
}

// opEnd ends a runnel by SIGTERM or by the end of its input. It exits with 0.
func (g *ground) opEnd(s *slot, rng *rand.Rand, _ int) {
	signal := rng.IntN(2) == 0
	if s.number == 0 || s.stopped {
		return
	}
	g.killed(s)
	g.trouble(func(k *groundTask) bool { return k.slot == s }) // those that are being started may be refused
	s.c.resume()
	if signal {
		g.signal(s, syscall.SIGTERM)
	} else {
		s.c.closeInput()
	}
	select {
	case <-s.c.gone:
	case <-time.After(groundPatience):
		g.t.Errorf("the runnel in slot %d does not end\nstderr:\n%s", s.number, &s.c.log)
		s.c.abort()
	}
	_ = s.c.cmd.Wait()
	if code := s.c.cmd.ProcessState.ExitCode(); code != 0 {
		g.t.Errorf("exit code %d\nstderr:\n%s", code, &s.c.log)
	}
	g.start(s)
}

// opKillChild kills a guard, a supervisor, a command or an upstream.
func (g *ground) opKillChild(_ *slot, rng *rand.Rand, _ int) {
	pick, kind := rng.Uint64(), []string{"runnel-guard", "runnel-supervisor", "sleep 601", "sh -c",
		filepath.Join(g.dir, groundDriver)}[rng.IntN(5)]
	var some []int
	for _, pid := range processes(childMark) {
		if line := cmdline(pid); strings.Contains(line, kind) && pid != os.Getpid() {
			some = append(some, pid)
		}
	}
	if len(some) == 0 {
		return
	}
	g.trouble(func(*groundTask) bool { return kind != "runnel-guard" })
	_ = syscall.Kill(some[pick%uint64(len(some))], syscall.SIGKILL)
}

// opStop stops a runnel for a while, as a machine that sleeps does.
func (g *ground) opStop(s *slot, rng *rand.Rand, n int) {
	if s.stopped {
		return
	}
	c := s.c
	s.stopped = true
	g.signal(s, syscall.SIGSTOP)
	g.wrong(n, rng, func() {
		if s.c == c {
			s.stopped = false
			_ = c.cmd.Process.Signal(syscall.SIGCONT)
		}
	})
}

// opSleep stops a runnel for longer than commands may be silent, while they print all the time.
func (g *ground) opSleep(s *slot, rng *rand.Rand, _ int) {
	if rng.IntN(2) == 0 || s.stopped || s.c.stalled() { // half of the times: it takes long
		return
	}
	for range 3 {
		k := &groundTask{slot: s, owner: s.owner, since: time.Now(), troubled: true, tool: "chatter",
			chunks: -1, endless: true, ttl: 3600_000}
		s.c.call(k, "tools/call", map[string]any{"name": k.tool, "arguments": map[string]any{},
			"task": map[string]any{"ttl": k.ttl}})
	}
	g.within("the handles of chatters", func() string {
		s.c.take()
		if slices.ContainsFunc(s.c.open, func(r *openRequest) bool { return r.what == "a call of chatter" }) {
			return fmt.Sprintf("slot %d:", s.number)
		}
		return ""
	})
	g.trouble(func(k *groundTask) bool { return k.slot == s })
	g.signal(s, syscall.SIGSTOP)
	time.Sleep(groundIdle + time.Second)
	g.signal(s, syscall.SIGCONT)
}

// opReload changes the config, for good or for bad.
func (g *ground) opReload(s *slot, rng *rand.Rand, n int) {
	which := rng.Uint64()
	switch rng.IntN(6) {
	case 0:
		g.replaceConfig("tools: {broken")
	case 1:
		_ = os.Remove(g.config)
		_ = unix.Mkfifo(g.config, 0o600)
	default:
		g.writeConfig(which)
	}
	if s.c != nil && rng.IntN(2) == 0 && !s.stopped {
		g.signal(s, syscall.SIGHUP)
	}
	// A runnel that starts needs a config: it is whole again before the next step.
	time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
	g.writeConfig(which)
	g.trouble(func(k *groundTask) bool { return k.anyEnd })
}

// opDisk fills the disk, and has a client write more than there is room for: what has ended must not pay for
// it.
func (g *ground) opDisk(s *slot, rng *rand.Rand, n int) {
	file := g.fill(uint64(rng.IntN(1 << rng.IntN(20))))
	g.wrong(n, rng, func() { _ = os.Remove(file) })
	k := &groundTask{slot: s, owner: s.owner, since: time.Now(), troubled: true, tool: "stream",
		chunks: rng.IntN(groundFlood << 8), ttl: 3600_000}
	s.c.call(k, "tools/call", map[string]any{"name": k.tool,
		"arguments": map[string]any{"count": k.chunks, "bytes": knownBytes},
		"task":      map[string]any{"ttl": k.ttl}})
}

func (g *ground) opNoFiles(s *slot, rng *rand.Rand, n int) {
	more := rng.IntN(12)
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.c.cmd.Process.Pid))
	if err != nil {
		g.t.Errorf("%v", err)
		return
	}
	g.limit(s, n, rng, unix.RLIMIT_NOFILE, uint64(len(fds)+more))
}

func (g *ground) opNoProcesses(s *slot, rng *rand.Rand, n int) {
	g.limit(s, n, rng, unix.RLIMIT_NPROC, threads()+rng.Uint64N(12))
}

func (g *ground) opSmallFiles(s *slot, rng *rand.Rand, n int) {
	g.limit(s, n, rng, unix.RLIMIT_FSIZE, 64<<10+rng.Uint64N(2<<20))
}

// opClock moves the wall clock: most often a little, sometimes by hours; also back.
func (g *ground) opClock(_ *slot, rng *rand.Rand, _ int) {
	g.now()
	by := rng.Int64N(1 << rng.IntN(14))
	if rng.IntN(4) == 0 {
		by = -min(by, 600)
	}
	g.trouble(func(k *groundTask) bool { return true })
	g.clock.Add(by)
	g.now()
}

// opLease removes a lease's file, as one who cleans up does.
func (g *ground) opLease(_ *slot, rng *rand.Rand, _ int) {
	pick := rng.Uint64()
	leases, _ := filepath.Glob(filepath.Join(g.state(), "alive", "*"))
	if len(leases) == 0 {
		return
	}
	g.trouble(func(*groundTask) bool { return true })
	_ = os.Remove(leases[pick%uint64(len(leases))])
}
