package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Calls by workers beside calls that run where they are made, the columns of a table of their own (-fleet).
// All programs are processes on this machine; processor time is that of all runnels and servers together,
// without that of the commands they run.

const (
	fleetWorkers = 3
	quickCalls   = 300
	quickTime    = 5 * time.Second // of many calls at the same time
	quickAtOnce  = 32
	followedSize = 8 << 20 // bytes; a task of which another process follows the output
	streamedSize = 50 << 20
	// fleetPatience is how long one measurement of one column may take.
	fleetPatience = 10 * time.Minute
)

// place is where the calls of a column run.
type place struct {
	state
	workers int    // 0 = where they are made
	runnel  string // another one than this repository's; "" = that
}

var places = []place{
	{state{"local", func(dir string) (string, []*exec.Cmd, error) {
		return filepath.Join(dir, "state"), nil,
			nil
	}}, 0, ""},
	{state{"NATS", func(dir string) (string, []*exec.Cmd, error) { return startNATS(dir, 1) }}, 0, ""},
	{state{"Redis", startRedis}, 0, ""},
	{state{"worker", func(dir string) (string, []*exec.Cmd, error) { return startNATS(dir, 1) }},
		fleetWorkers, ""},
}

var fleetMeasurements = []struct {
	name string
	take func(r *stateRun, front string) ([]value, error)
}{
	{"quick", quick},
	{"stream", streamed},
	{"followers", followers},
	{"stored", quickWhileStored},
}

// benchFleet measures each place in turn, some times, and shows a table of each measurement: the columns
// after the first also as ratios to it. before is another runnel whose workers and front get a column; "" =
// none.
func benchFleet(rounds int, only, before string) error {
	dir, err := os.MkdirTemp("", "runnel-fleet")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := buildPrograms(dir); err != nil {
		return err
	}
	places := slices.Clone(places)
	if before != "" {
		last := places[len(places)-1]
		last.name, last.runnel = "worker, before", before
		places = append(places, last)
	}
	var columns []server
	for _, p := range places {
		columns = append(columns, server{name: p.name})
	}
	for _, m := range fleetMeasurements {
		if !strings.Contains(m.name, only) {
			continue
		}
		t := newTable(columns) // shown when it is complete: all of it takes long
		for range rounds {
			for _, p := range places {
				fmt.Fprintf(os.Stderr, "%s: %s, load %s\n", m.name, p.name, load())
				values, err := withState(dir, p.state, func(r *stateRun) ([]value, error) {
					r.runnel = cmp.Or(p.runnel, r.runnel)
					stop, front, err := r.startWorkers(p.workers)
					defer stop()
					if err != nil {
						return nil, err
					}
					return m.take(r, front)
				})
				if err != nil { // the other columns are still measured
					fmt.Fprintf(os.Stderr, "%s of %s: %v\n", m.name, p.name, err)
				}
				t.add(p.name, values)
			}
		}
		t.printRatios(os.Stdout)
	}
	return nil
}

func load() string {
	b, _ := os.ReadFile("/proc/loadavg")
	one, _, _ := strings.Cut(string(b), " ")
	return one
}

// startWorkers starts workers that have the tools, and returns the front's config. Without workers the front
// has the tools itself.
func (r *stateRun) startWorkers(n int) (stop func(), front string, err error) {
	var started []*exec.Cmd
	stop = func() {
		for _, w := range started {
			_ = w.Process.Kill()
			_ = w.Wait()
		}
	}
	const stream = `sleep 1; yes 'a line of sixty bytes, as the output of a compiler has them' | head -c $bytes`
	runs := map[bool]string{true: "runs: builds, "}[n > 0]
	tools := func(quick, stream string) string {
		return fmt.Sprintf("tools:\n  quick: {%s%s}\n", runs, quick) +
			fmt.Sprintf("  stream: {%s%s, input: {bytes: {type: integer}}}\n", runs, stream)
	}
	with := tools("command: [echo, hello]", fmt.Sprintf("shell: %q", stream))
	front = filepath.Join(r.dir, "front.yaml")
	worker := filepath.Join(r.dir, "worker.yaml")
	text := with
	if n > 0 {
		text = tools("input: {}", "description: streams")
	}
	if err = os.WriteFile(front, []byte(text), 0o600); err == nil {
		err = os.WriteFile(worker, []byte(with), 0o600)
	}
	for range n {
		w := exec.Command(r.runnel, "work", "--state", r.url, "--config", worker, "--slots", "16",
			"--log-level", "error")
		w.Stderr, w.Dir = os.Stderr, r.dir
		if err == nil {
			err = w.Start()
		}
		if err != nil {
			return stop, front, err
		}
		started = append(started, w)
		r.pids = append(r.pids, w.Process.Pid)
	}
	return stop, front, err
}

// openFront starts a runnel with the tools.
func (r *stateRun) openFront(front string) (*session, error) {
	c, err := r.open("--config", front)
	if err == nil {
		err = c.out.SetReadDeadline(time.Now().Add(fleetPatience))
	}
	return c, err
}

const (
	quickCall  = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"quick","arguments":{}}}`
	streamCall = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"stream","arguments":{"bytes":%d},"task":{}}}`
)

// quick measures calls of a command that ends as soon as it has begun: one after the other, then many.
func quick(r *stateRun, front string) ([]value, error) {
	c, err := r.openFront(front)
	if err != nil {
		return nil, err
	}
	defer c.end()
	all, cpu, err := quickOneByOne(r, c)
	if err != nil {
		return nil, err
	}
	id, ended := 0, 0
	send := func(n int) {
		for range n {
			id++
			c.send(quickCall, id)
		}
	}
	began, before := time.Now(), r.cpu()
	send(quickAtOnce)
	err = c.each(func(line []byte) bool {
		if !bytes.Contains(line, []byte(`"result"`)) {
			return true
		}
		if ended++; time.Since(began) < quickTime {
			send(1)
		}
		return ended < id
	})
	if err != nil {
		return nil, err
	}
	return []value{
		{"a quick call, p50", quantile(all, 50), "ns"},
		{"a quick call, p99", quantile(all, 99), "ns"},
		{"a quick call, CPU of all", cpu, "ns"},
		{"quick calls, 32 in flight", float64(ended) / time.Since(began).Seconds(), "/s"},
		{"quick calls, 32 in flight: CPU of all, each", (r.cpu() - before) / float64(ended), "ns"},
	}, nil
}

func quickOneByOne(r *stateRun, c *session) (all []time.Duration, cpu float64, err error) {
	const warm = 20
	var before float64
	for i := range warm + quickCalls {
		if i == warm {
			before = r.cpu()
		}
		began := time.Now()
		c.send(quickCall, i+1)
		var line []byte
		err := c.each(func(l []byte) bool {
			line = l
			return !bytes.Contains(l, []byte(`"result"`)) && !bytes.Contains(l, []byte(`"error"`))
		})
		if err == nil && !bytes.Contains(line, []byte("hello")) {
			err = fmt.Errorf("a call is answered %s", line)
		}
		if err != nil {
			return nil, 0, err
		}
		if i >= warm {
			all = append(all, time.Since(began))
		}
	}
	return all, (r.cpu() - before) / quickCalls, nil
}

// streamed measures a task that writes without pause, at the client that has called it.
func streamed(r *stateRun, front string) ([]value, error) {
	c, err := r.openFront(front)
	if err != nil {
		return nil, err
	}
	defer c.end()
	before := r.cpu()
	c.send(streamCall, 1, streamedSize)
	var first time.Time
	err = c.each(func(line []byte) bool {
		if first.IsZero() && bytes.Contains(line, []byte("compiler")) {
			first = time.Now()
		}
		return !ended(line)
	})
	if err != nil || first.IsZero() {
		return nil, fmt.Errorf("a stream without end or output: %w", err)
	}
	const mb = streamedSize / 1e6
	return []value{
		{"a stream of 50 MiB, MB", mb / time.Since(first).Seconds(), "/s"},
		{"a stream of 50 MiB, CPU of all, a MB", (r.cpu() - before) / mb, "ns"},
	}, nil
}

// followers measures readers of a task that another process runs: one, ten and a hundred requests of a client
// of one other runnel.
func followers(r *stateRun, front string) (values []value, err error) {
	here, err := r.openFront(front)
	if err != nil {
		return nil, err
	}
	defer here.end()
	for _, n := range []int{1, 10, 100} {
		there, err := r.openFront(front)
		if err != nil {
			return nil, err
		}
		more, err := followedBy(here, there, n)
		r.pids = r.pids[:len(r.pids)-1]
		there.end()
		if err != nil {
			return nil, err
		}
		values = append(values, more...)
	}
	return values, nil
}

func followedBy(here, there *session, n int) ([]value, error) {
	here.send(streamCall, n, followedSize)
	ids, err := here.handles(1)
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	before, read := there.cpu(), there.bytesRead()
	for i := range n {
		there.send("%s", strings.Replace(fmt.Sprintf(listening, encoded), `"id":1,`,
			fmt.Sprintf(`"id":%d,`, i+1), 1))
	}
	left, got := n, 0
	ends := make(chan error, 1)
	go func() { ends <- here.each(func(line []byte) bool { return !ended(line) }) }()
	err = there.each(func(line []byte) bool {
		got += len(line)
		if bytes.Contains(line, []byte(`"status":"completed"`)) ||
			bytes.Contains(line, []byte(`"status":"failed"`)) {
			left--
		}
		return left > 0
	})
	if err != nil {
		return nil, fmt.Errorf("%d of %d followers see no end: %w", left, n, err)
	}
	if got < n*followedSize {
		return nil, fmt.Errorf("%d followers got %d bytes of %d each", n, got, followedSize)
	}
	const mb = followedSize / 1e6
	name := fmt.Sprintf("followers in another process, %d: ", n)
	values := []value{
		{name + "its CPU, a MB and follower", (there.cpu() - before) / mb / float64(n), "ns"},
		{name + "bytes that it reads, a byte of the output",
			float64(there.bytesRead()-read) / followedSize, ""},
	}
	return values, <-ends
}

// bytesRead is how much the server has read from files, pipes and connections.
func (c *session) bytesRead() int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/io", c.cmd.Process.Pid))
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "rchar: "); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(rest))
			return n
		}
	}
	return 0
}

// quickWhileStored measures quick calls when few tasks are stored and when many are.
func quickWhileStored(r *stateRun, front string) (values []value, err error) {
	fill, err := r.open("--selftest")
	if err != nil {
		return nil, err
	}
	defer fill.end()
	c, err := r.openFront(front)
	if err != nil {
		return nil, err
	}
	defer c.end()
	stored := 0
	for _, many := range []int{10, 1_000, 100_000} {
		if err := fill.out.SetReadDeadline(time.Now().Add(fleetPatience)); err != nil {
			return nil, err
		}
		err := fill.tasks(func(ended int) bool { return stored+ended >= many })
		if err != nil { // the rows so far stay
			return values, fmt.Errorf("storing %d tasks: %w", many, err)
		}
		stored = many
		if err := c.out.SetReadDeadline(time.Now().Add(fleetPatience)); err != nil {
			return nil, err
		}
		all, cpu, err := quickOneByOne(r, c)
		if err != nil {
			return values, err
		}
		name := fmt.Sprintf("a quick call beside %d stored tasks", many)
		values = append(values, value{name + ", p50", quantile(all, 50), "ns"},
			value{name + ", CPU of all", cpu, "ns"})
	}
	return values, nil
}

// printRatios writes a row for each figure, with the columns after the first also as ratios to it.
func (t *table) printRatios(w *os.File) {
	day := time.Now().UTC().Format(time.DateOnly)
	fmt.Fprintf(w, "\n%d processors, Linux %s, %s, %s, load %s\n\n|", runtime.NumCPU(), kernel(), processor(),
		day, load())
	for _, s := range t.servers {
		fmt.Fprintf(w, " | %s", s.name)
	}
	fmt.Fprintf(w, " |\n|---%s|\n", strings.Repeat("|---", len(t.servers)))
	for _, row := range t.rows {
		fmt.Fprintf(w, "| %s", row)
		base, ok := t.median(row, t.servers[0].name)
		for i, s := range t.servers {
			v, measured := t.median(row, s.name)
			switch {
			case !measured:
				fmt.Fprint(w, " | –")
			case i > 0 && ok && base > 0:
				fmt.Fprintf(w, " | %s (%.1f ×)", show(v, t.unit[row]), v/base)
			default:
				fmt.Fprintf(w, " | %s", show(v, t.unit[row]))
			}
		}
		fmt.Fprintln(w, " |")
	}
}
