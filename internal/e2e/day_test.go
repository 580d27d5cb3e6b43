//go:build linux

package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"runnel/tools/config"
)

// A day with runnel: several hosts work in two projects on one state, call every tool that the documents and
// init give them, again and again, while configs change, the laptop sleeps, hosts end and are killed, and
// people watch. What a call gives is what the first such call gave, nothing grows, and the list of tasks
// knows what happened. make day takes an hour for it. A seed gives the same operations again, as far as
// processes allow.
const (
	dayTimeVariable = "RUNNEL_DAY_TIME" // how long, 45 s without it
	daySeedVariable = "RUNNEL_DAY_SEED"
	dayTime         = 45 * time.Second
)

const (
	dayHour     = 15 * time.Second // from one look at everything to the next
	dayPause    = time.Second      // between two things that happen to everybody, at most
	dayMaxSleep = 120              // seconds that the laptop sleeps: with those of an hour below tasks.ttl
	dayState    = 64 << 20         // bytes of state when every task has expired
	dayJump     = 25 * 3600        // seconds without a look: more than any ttl but that of the manual's steps
)

type day struct {
	t       *testing.T
	seed    uint64
	mark    string // in the environment of every process of this day
	dir     string
	program string
	clock   *atomic.Int64

	configs  []*dayConfig
	projects []*dayProject
	hosts    []*dayHost
	served   *httpServer // the server at a URL that configs name
	shared   *httpServer // the second project's runnel for hosts that come by HTTP
	metrics  []string    // addresses of those that live all day
	usage    []resources // theirs after the first hour

	look func()       // at what people watch
	jump sync.RWMutex // held for writing while the clock jumps past every ttl

	over atomic.Bool

	mu     sync.Mutex
	first  map[string]dayFirst
	tasks  map[string]*dayEnd // by id, since the last hour
	counts map[string]int
	fails  int
}

// dayFirst is what the first call gave.
type dayFirst struct{ by, text string }

// dayEnd is how a task ended, as its host was told.
type dayEnd struct {
	call   *dayCall
	status string // "" before the end
}

func TestDay(t *testing.T) {
	if testing.Short() {
		t.Skip("a day takes 45 s: make ci has it")
	}
	t.Parallel()
	lasts, err := time.ParseDuration(cmp.Or(os.Getenv(dayTimeVariable), dayTime.String()))
	if err != nil {
		t.Fatalf("%s: %v", dayTimeVariable, err)
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(daySeedVariable); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", daySeedVariable, err)
		}
	}
	d := &day{t: t, seed: seed, dir: t.TempDir(), mark: fmt.Sprintf("RUNNEL_TEST_DAY=%d", seed),
		first: map[string]dayFirst{}, tasks: map[string]*dayEnd{}, counts: map[string]int{}}
	buildWithClock(t, d.dir)
	d.program, d.clock = filepath.Join(d.dir, groundProgram), mapClock(t, filepath.Join(d.dir, groundClock))
	d.furnish()
	d.served = d.serve(d.dir, "--selftest", "--state", "memory")
	scripts := d.readConfigs()
	d.open()
	d.look = d.watch()
	d.play(lasts, scripts)
	say("day of %v from seed %d, %d configs, %d scripts: %v", lasts, d.seed, len(d.configs),
		len(scripts), d.counts)
}

// fail reports what is wrong. After some of it the day is over.
func (d *day) fail(format string, args ...any) {
	d.t.Errorf("%s=%d: "+format, append([]any{daySeedVariable, d.seed}, args...)...)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fails++; d.fails > 5 {
		d.over.Store(true)
	}
}

func (d *day) count(what string, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counts[what] += n
}

// compare holds that a call gives what the first of its kind gave. A command that is not detached may have
// ended with its runnel.
func (d *day) compare(c *dayCall, result string) {
	if c.starts != c.host.starts &&
		(strings.Contains(result, "the runnel that ran this task is gone") ||
			strings.Contains(result, "runnel was stopped")) {
		d.count("lost with their runnel by "+c.host.profile.name, 1)
		return
	}
	d.same(c.String(), strings.Join([]string{c.marker, c.tool.name, c.arguments, c.host.profile.name, c.way},
		" "), result)
}

// same holds that something is what it was the first time.
func (d *day) same(by, what, text string) {
	d.mu.Lock()
	before, known := d.first[what]
	if !known {
		d.first[what] = dayFirst{by, text}
	} else {
		d.counts["compared"]++
	}
	d.mu.Unlock()
	if known && before.text != text {
		first, now := differing(before.text, text)
		d.fail("%s, by %s\nis not what it was the first time, by %s\nfirst:\n%s\nnow:\n%s", what, by,
			before.by, first, now)
	}
}

// differing shortens two texts to what is around the first byte in which they differ.
func differing(a, b string) (string, string) {
	const around = 1000
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	from := max(0, n-around)
	return a[from:min(len(a), n+around)], b[from:min(len(b), n+around)]
}

var dayChanges = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "ID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ][0-9:.]+(Z|[+-][0-9:]+)?`), "TIME"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d(\.\d+)?`), "TIME"},
	{regexp.MustCompile(`\b\d+(\.\d+)? ?(ns|µs|ms|s|m|min|h)\b`), "DURATION"},
	{regexp.MustCompile(`\bt=\d+`), "t=N"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`\b[0-9a-f]{8}\b`), "ID"},
}

// plain takes out of a text what differs from one call to the next: ids, times, durations.
func (d *day) plain(text string) string {
	for _, change := range dayChanges {
		text = change.pattern.ReplaceAllString(text, change.with)
	}
	return text
}

// comparable is an answer without what differs from one call to the next; chunks are what of its content came
// before it.
func (d *day) comparable(a answer, chunks string) string {
	if a.Error != nil {
		return d.plain(fmt.Sprintf("error %d %s", a.Error.Code, a.Error.Message))
	}
	var r struct {
		Content    []map[string]any
		Segments   []map[string]any `json:"partial-content"`
		IsError    bool
		Structured json.RawMessage `json:"structuredContent"`
		Meta       map[string]any  `json:"_meta"`
	}
	if len(a.Result) > 0 {
		if err := json.Unmarshal(a.Result, &r); err != nil {
			return err.Error() + string(a.Result)
		}
	}
	said, others := chunks, ""
	for _, item := range append(r.Content, r.Segments...) { // how the text is cut depends on when it came
		if text, ok := item["text"].(string); ok && item["type"] == "text" {
			said += text
		} else {
			others += string(rawJSON(item)) + "\n"
		}
	}
	for _, key := range []string{"io.modelcontextprotocol/related-task", "runnel/task",
		"io.modelcontextprotocol/serverInfo"} {
		delete(r.Meta, key)
	}
	if command, ok := r.Meta["runnel/command"].(map[string]any); ok {
		delete(command, "durationMs")
	}
	meta := ""
	if len(r.Meta) > 0 {
		meta = string(rawJSON(r.Meta))
	}
	return d.plain(fmt.Sprintf("isError %t %s %s\n%s%s", r.IsError, meta, r.Structured, others,
		d.sideBySide(said)))
}

const stepBegins = ": begins as task "

// sideBySide sorts the lines of steps: those that run side by side begin and end in any order.
func (d *day) sideBySide(output string) string {
	if !strings.Contains(output, stepBegins) {
		return output
	}
	lines := strings.FieldsFunc(d.plain(output), func(r rune) bool { return r == '\n' })
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// ended notes how a task ended. All who ask get the same end.
func (d *day) ended(c *dayCall, status, message string) {
	d.mu.Lock()
	end := d.tasks[c.id]
	if end == nil {
		end = &dayEnd{call: c, status: status}
		d.tasks[c.id] = end
	}
	before := end.status
	d.mu.Unlock()
	if before != status {
		d.fail("%v: %s %q, had ended %s", c, status, message, before)
	}
}

// play is the day. Each host works, each project's config changes, scripts are run, and in between the laptop
// sleeps.
func (d *day) play(lasts time.Duration, scripts []dayScript) {
	var all sync.WaitGroup
	defer func() { // also if a Fatal ends the test
		d.over.Store(true)
		all.Wait()
		for _, h := range d.hosts {
			h.stop(false)
		}
	}()
	for _, h := range d.hosts {
		all.Go(func() {
			for !d.over.Load() {
				h.project.mu.RLock()
				h.step()
				h.project.mu.RUnlock()
			}
		})
	}
	for i, p := range d.projects {
		all.Go(func() {
			d.again(100+uint64(i), len(d.configs), func(n int) {
				d.reload(p, d.configs[n])
				d.touch(p)
			})
		})
	}
	all.Go(func() {
		d.again(200, len(scripts), func(n int) {
			d.jump.RLock()
			said := d.plain(d.run(scripts[n]))
			d.jump.RUnlock()
			d.same("a script", scripts[n].name, said)
			d.count("scripts", 1)
		})
	})
	rng := rand.New(rand.NewPCG(d.seed, 0))
	for began, hour := time.Now(), time.Now(); time.Since(began) < lasts && !d.over.Load(); {
		if time.Since(hour) > dayHour {
			d.quiet()
			hour = time.Now()
		}
		time.Sleep(time.Duration(rng.Int64N(int64(4 * dayPause))))
		d.sleep(rng)
	}
	d.quiet()
}

// again does n things, each once before one comes a second time, in an order that is drawn each time, until
// the day is over.
func (d *day) again(stream uint64, n int, do func(n int)) {
	for rng := rand.New(rand.NewPCG(d.seed, stream)); ; {
		for _, k := range rng.Perm(n) {
			if d.over.Load() {
				return
			}
			do(k)
			time.Sleep(time.Duration(rng.Int64N(int64(2 * dayPause))))
		}
	}
}

// reload gives a project another config, which all its hosts see. Tasks that they have left running go on.
func (d *day) reload(p *dayProject, config *dayConfig) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d.configure(p, config)
	for _, h := range d.hosts {
		if h.project == p {
			h.list()
		}
	}
	d.count("reloads", 1)
}

// configure writes a project's config, and says that it is to be read.
func (d *day) configure(p *dayProject, config *dayConfig) {
	p.config, p.marker = config, markerOf(config.name)
	d.rewrite(p)
}

// touch writes a config again as it is: that disturbs nothing.
func (d *day) touch(p *dayProject) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	d.rewrite(p)
}

func (d *day) rewrite(p *dayProject) {
	file := filepath.Join(p.dir, "runnel.yaml")
	d.write(file, p.config.text)
	if p.trusts {
		if said, err := d.command(p.dir, "trust", file).CombinedOutput(); err != nil {
			d.fail("%s: %v\n%s", p.config.name, err, said)
		}
		return
	}
	for _, h := range d.hosts {
		if h.project == p {
			h.hangUp()
		}
	}
}

// sleep is the laptop's: every process stops, the clock does not.
func (d *day) sleep(rng *rand.Rand) {
	stopped := processes(d.mark)
	for _, pid := range stopped {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	d.clock.Add(1 + rng.Int64N(dayMaxSleep))
	time.Sleep(time.Duration(rng.Int64N(int64(dayPause))))
	for _, pid := range stopped {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	d.count("sleeps", 1)
}

// quiet lets everything come to its end, and holds what is left against what must hold always.
func (d *day) quiet() {
	for _, p := range d.projects {
		p.mu.Lock()
		defer p.mu.Unlock()
	}
	for _, h := range d.hosts {
		h.collect(len(h.pending))
	}
	d.checkList()
	d.look()
	d.checkLeft()
	d.checkUsage()
	d.jump.Lock()
	d.clock.Add(dayJump)
	d.jump.Unlock()
	d.checkExpired()
	d.count("hours", 1)
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.tasks)
}

// dayTask is a task in the list; TTL is in milliseconds.
type dayTask struct {
	TaskID, Status string
	TTL            int64
}

// listed is what runnel tasks list says.
func (d *day) listed() (list []dayTask) {
	out, err := d.command(d.dir, "tasks", "list", "-o", "json").Output()
	if exit, ok := err.(*exec.ExitError); ok {
		d.fail("tasks list: %v\n%s", err, exit.Stderr)
	}
	all := struct{ Tasks *[]dayTask }{&list}
	if err := json.Unmarshal(out, &all); err != nil {
		d.fail("tasks list: %v: %s", err, out)
	}
	return list
}

// checkList holds that the list of tasks knows what happened.
func (d *day) checkList() {
	all := map[string]string{}
	for _, task := range d.listed() {
		all[task.TaskID] = task.Status
	}
	d.mu.Lock()
	tasks := maps.Clone(d.tasks)
	d.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(tasks)) {
		if end := tasks[id]; all[id] != end.status {
			d.fail("%v has ended %s, and tasks list says %q", end.call, end.status, all[id])
		}
	}
	d.count("tasks in the list", len(tasks))
}

// checkLeft holds that no command goes on.
func (d *day) checkLeft() {
	for deadline := time.Now().Add(watchdog); ; time.Sleep(dayPoll) {
		left := ""
		for _, pid := range processes(d.mark) {
			if line := cmdline(pid); strings.Contains(line, filepath.Join(d.dir, "bin")+"/") &&
				!strings.Contains(line, "runnel") {
				left = fmt.Sprintf("process %d is left: %s", pid, line)
			}
		}
		if left == "" {
			return
		}
		if time.Now().After(deadline) {
			d.fail("%s", left)
			return
		}
	}
}

// checkUsage holds that those that live all day do not grow.
func (d *day) checkUsage() {
	for i, address := range d.metrics {
		if i >= len(d.usage) {
			d.usage = append(d.usage, settled(d.t, address, resources{}))
			continue
		}
		u, most := settled(d.t, address, d.usage[i]), d.usage[i]
		if u.goroutines > most.goroutines+groundGoroutines || u.files > most.files+groundFiles ||
			u.heap > most.heap+groundHeap || u.resident > groundResident {
			d.fail("%s holds %+v, after the first hour it held %+v", address, u, most)
		}
	}
}

// checkExpired holds that after a day without a look no more is left of tasks and of plain calls than the
// history keeps.
func (d *day) checkExpired() {
	history := config.Default().History
	for deadline := time.Now().Add(watchdog); ; time.Sleep(dayPoll) {
		left := 0
		for _, task := range d.listed() {
			if task.TTL <= time.Duration(history.Age).Milliseconds() { // steps last longer (open)
				left++
			}
		}
		if left <= history.Calls {
			break
		} else if time.Now().After(deadline) {
			d.fail("%d tasks and calls are listed after their ttl, and %d are kept", left, history.Calls)
			return
		}
	}
	size := int64(0)
	_ = filepath.Walk(filepath.Join(d.dir, "state"), func(_ string, info os.FileInfo, err error) error {
		if err == nil {
			size += info.Size()
		}
		return nil
	})
	if size > dayState {
		d.fail("the state has %d MiB when every task has expired", size>>20)
	}
}
