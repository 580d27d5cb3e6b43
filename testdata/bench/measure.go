package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// measurement is taken of each server in turn.
type measurement struct {
	name string
	only string // the one server that can do it, "" for all
	take func(dir string, s server) ([]value, error)
}

var measurements = []measurement{
	{"spawn", "", spawn},
	{"spawn, 50 tools", "runnel", spawnTools},
	{"ping", "", ping},
	{"ping while a task streams", "", pingWhile},
	{"echo, 64 in flight", "", echo},
	{"burst", "", burst},
	{"burst of commands", "runnel", burstOfCommands},
	{"notifications", "", notifications},
	{"coalesced", "runnel", coalesced},
	{"command", "runnel", command},
	{"1,000 tasks", "", thousand},
	{"8 tasks", "", eight},
	{"idle", "", idle},
}

const (
	spawns      = 20
	pings       = 5000
	floodPings  = 300
	inFlight    = 64
	echoTime    = time.Second
	manyChunks  = 4_000_000
	fewChunks   = 200_000    // for servers that need a second for as many
	outputBytes = 255 << 20  // the most that a command prints before it is cut off
	seqLast     = 29_000_000 // seq prints about as many
)

func spawn(_ string, s server) ([]value, error) {
	took, err := spawned(s)
	return []value{{"spawn to initialize, median", took, "ns"}}, err
}

func spawned(s server) (float64, error) {
	var all []time.Duration
	for range spawns {
		began := time.Now()
		c, err := open(s)
		if err != nil {
			return 0, err
		}
		all = append(all, time.Since(began))
		c.end()
	}
	return quantile(all, 50), nil
}

// spawnTools starts runnel with a config of 50 tools, each with arguments and a progress pattern, and a state
// directory.
func spawnTools(dir string, s server) ([]value, error) {
	file, err := toolsConfig(dir, 50)
	if err != nil {
		return nil, err
	}
	s.argv = append(s.argv[:len(s.argv):len(s.argv)], "--config", file, "--state",
		filepath.Join(dir, "state"))
	took, err := spawned(s)
	return []value{{"spawn to initialize, config of 50 tools, state on disk", took, "ns"}}, err
}

// toolsConfig writes a config of so many tools, each with arguments and a progress pattern.
func toolsConfig(dir string, many int) (file string, err error) {
	var config strings.Builder
	config.WriteString("tools:\n")
	for i := range many {
		fmt.Fprintf(&config, `  tool%d:
    title: Tool %d
    description: Runs the program number %d on some files, and says what it did
    command: [echo, "-n={{count}}", "{{files}}"]
    input:
      files: {type: array, items: {type: string}, default: ["./..."]}
      count: {type: integer, minimum: 1, description: how many}
    required: [files]
    timeout: 10m
    progress: '\[(\d+)/(\d+)\]'
`, i, i, i)
	}
	file = filepath.Join(dir, "tools.yaml")
	return file, os.WriteFile(file, []byte(config.String()), 0o600)
}

func ping(_ string, s server) ([]value, error) {
	c, err := open(s)
	if err != nil {
		return nil, err
	}
	defer c.end()
	var all []time.Duration
	for i := range pings {
		began := time.Now()
		c.send(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i+1)
		if _, err := c.line(); err != nil {
			return nil, err
		}
		all = append(all, time.Since(began))
	}
	all = all[pings/10:] // the first ones warm up
	return []value{{"ping, p50", quantile(all, 50), "ns"}, {"ping, p99", quantile(all, 99), "ns"}}, nil
}

func pingWhile(_ string, s server) ([]value, error) {
	c, err := open(s)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.cmd.Process.Kill(); c.end() }()
	c.stream(1, 1<<40, 0)
	const longest = 80 // the longest answer to ping; a notification is longer
	var all []time.Duration
	var began time.Time
	chunks := 0
	err = c.each(func(line []byte) bool {
		if chunks++; chunks < fewChunks {
			return true
		}
		if began.IsZero() || len(line) < longest {
			if !began.IsZero() {
				all = append(all, time.Since(began))
			}
			began = time.Now()
			c.send(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, len(all)+2)
		}
		return len(all) < floodPings
	})
	return []value{{"ping while a task streams, p50", quantile(all, 50), "ns"},
		{"ping while a task streams, p99", quantile(all, 99), "ns"}}, err
}

func echo(_ string, s server) ([]value, error) {
	c, err := open(s)
	if err != nil {
		return nil, err
	}
	defer c.end()
	return echoes(c, "")
}

// echoes keeps 64 calls in flight: as many as have been answered are sent again. more is what their params
// have beside the tool's name and arguments.
func echoes(c *session, more string) ([]value, error) {
	var requests []byte
	id := 0
	call := func(n int) error {
		requests = requests[:0]
		for range n {
			id++
			requests = append(requests, `{"jsonrpc":"2.0","id":`...)
			requests = strconv.AppendInt(requests, int64(id), 10)
			requests = append(requests,
				`,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}`...)
			requests = append(append(requests, more...), "}}\n"...)
		}
		_, err := c.in.Write(requests)
		return err
	}
	var began time.Time
	var cpu float64
	answered := 0
	err := call(inFlight)
	for warm := time.Now(); err == nil && (began.IsZero() || time.Since(began) < echoTime); {
		var b []byte
		if b, err = c.read(); err != nil {
			break
		}
		n := bytes.Count(b, []byte{'\n'})
		if answered += n; n > 0 {
			err = call(n)
		}
		if began.IsZero() && time.Since(warm) > echoTime/4 {
			began = time.Now()
			cpu = c.cpu()
			answered = 0
		}
	}
	if err != nil {
		return nil, err
	}
	took, cpu := time.Since(began).Seconds(), c.cpu()-cpu
	n := float64(answered)
	c.settle()
	return []value{
		{"echo, 64 in flight", n / took, "/s"},
		{"echo, 64 in flight, CPU each", cpu / n, "ns"},
	}, nil
}

// burst writes many calls at once, as a script does.
func burst(_ string, s server) ([]value, error) {
	var values []value
	for _, n := range []int{100, 1000, 10_000, 100_000} {
		c, err := open(s)
		if err != nil {
			return nil, err
		}
		refused, took, err := c.atOnce(n, "echo", `{"text":"hello"}`)
		c.end()
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("%d calls at once: ", n)
		values = append(values, value{name + "refused", refused, ""},
			value{name + "each", took / float64(n), "ns"})
	}
	return values, nil
}

// burstOfCommands is burst with commands, which take longer to start than calls to come.
func burstOfCommands(_ string, s server) ([]value, error) {
	c, err := open(s, "--tool", "true=true")
	if err != nil {
		return nil, err
	}
	defer c.end()
	refused, _, err := c.atOnce(1000, "true", `{}`)
	return []value{{"1000 commands at once: refused", refused, ""}}, err
}

// atOnce writes n calls of a tool, and returns how many were refused and the nanoseconds until all had their
// answer.
func (c *session) atOnce(n int, tool, arguments string) (refused, took float64, err error) {
	var requests []byte
	for id := 1; id <= n; id++ {
		requests = fmt.Appendf(requests,
			`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%s","arguments":%s}}`+"\n", id,
			tool, arguments)
	}
	began := time.Now()
	go func() { _, _ = c.in.Write(requests) }()
	answered := 0
	err = c.each(func(line []byte) bool {
		answered++
		if bytes.Contains(line, []byte(`"error":{`)) {
			refused++
		}
		return answered < n
	})
	return refused, float64(time.Since(began).Nanoseconds()), err
}

func notifications(_ string, s server) ([]value, error) {
	count := fewChunks
	if s.name == "floor" || s.task {
		count = manyChunks
	}
	c, err := open(s)
	if err != nil {
		return nil, err
	}
	defer c.end()
	cpu, began := c.cpu(), time.Now()
	c.stream(1, count, 0)
	if err := c.skip(count + c.overhead()); err != nil {
		return nil, err
	}
	n := float64(count)
	return []value{
		{"notifications of one 50-byte chunk", n / time.Since(began).Seconds(), "/s"},
		{"notifications of one 50-byte chunk, CPU each", (c.cpu() - cpu) / n, "ns"},
		{"peak memory while streaming", c.memory("VmHWM"), "MiB"},
	}, nil
}

// ended reports whether a read ends with the terminal status of a task, which is the last line of it.
func ended(b []byte) bool {
	return bytes.Contains(b[max(0, len(b)-1000):], []byte(`"status":"completed"`))
}

// untilEnded reads until the task has ended and returns how many bytes came.
func (c *session) untilEnded() (n int, err error) {
	for {
		b, err := c.read()
		if err != nil {
			return n, err
		}
		n += len(b)
		if ended(b) {
			return n, nil
		}
	}
}

func coalesced(_ string, s server) ([]value, error) {
	c, err := open(s, "--pace", "50ms")
	if err != nil {
		return nil, err
	}
	defer c.end()
	const count = 4 * manyChunks
	cpu, began := c.cpu(), time.Now()
	c.stream(1, count, 0)
	if _, err := c.untilEnded(); err != nil {
		return nil, err
	}
	return []value{
		{"coalesced chunks, default pace", count / time.Since(began).Seconds(), "/s"},
		{"coalesced chunks, default pace, CPU each", (c.cpu() - cpu) / count, "ns"},
	}, nil
}

// command streams what a command prints, beside what the shell's pipe takes of it.
func command(dir string, s server) ([]value, error) {
	plain, colours := filepath.Join(dir, "plain"), filepath.Join(dir, "colours")
	for file, line := range map[string]string{
		plain:   "main.go:123: the quick brown fox jumps over the lazy dog, and \"nobody\" minds it\n",
		colours: "\x1b[32mok\x1b[0m  runnel/tools/text_test.go \x1b[1m0.123s\x1b[0m  coverage: 87.5% of statements\n",
	} {
		if _, err := os.Stat(file); err == nil {
			continue
		}
		if err := os.WriteFile(file, bytes.Repeat([]byte(line), outputBytes/len(line)), 0o600); err != nil {
			return nil, err
		}
	}
	config := fmt.Sprintf(`tools:
  plain: {command: [cat, %[1]s], ansi: keep}
  strip: {command: [cat, %[1]s]}
  colours: {command: [cat, %[2]s]}
  lines: {command: [cat, %[1]s], output: lines}
  seq: {command: [seq, "%[3]d"]}
  progress: {command: [cat, %[1]s], progress: '(\d+)%%'}
`, plain, colours, seqLast)
	file := filepath.Join(dir, "commands.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	var values []value
	for _, tool := range []struct{ name, shell, what string }{
		{"plain", "cat " + plain, "cat, ansi: keep"},
		{"strip", "cat " + plain, "cat, ansi: strip"},
		{"colours", "cat " + colours, "cat of coloured text, ansi: strip"},
		{"lines", "cat " + plain, "cat, output: lines"},
		{"seq", fmt.Sprintf("seq %d", seqLast), "seq"},
		{"progress", "cat " + plain, "cat, progress looked for"},
	} {
		pipe, cat, err := piped(tool.shell)
		if err != nil {
			return nil, err
		}
		c, err := open(s, "--config", file, "--pace", "50ms")
		if err != nil {
			return nil, err
		}
		cpu, began := c.cpu(), time.Now()
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%s","arguments":{},"task":{}}}`, tool.name)
		_, err = c.untilEnded()
		took := time.Since(began)
		cpu = c.cpu() - cpu
		c.end()
		if err != nil {
			return nil, err
		}
		values = append(values, value{tool.what + ", MiB/s",
			outputBytes / took.Seconds() / (1 << 20), "MiB/s"},
			value{tool.what + ", of the shell's pipe", 100 * pipe.Seconds() / took.Seconds(), "%"},
			value{tool.what + ", CPU a byte", cpu / outputBytes, "ns"},
			value{tool.what + ", CPU a byte of a cat that reads the same pipe",
				float64(cat.Nanoseconds()) / outputBytes, "ns"})
	}
	return values, nil
}

// piped runs a program whose output a cat reads, and returns how long that takes and the cat's processor
// time.
func piped(program string) (took, cpu time.Duration, err error) {
	began := time.Now()
	writer, reader := exec.Command("sh", "-c", "exec "+program), exec.Command("cat")
	if reader.Stdin, err = writer.StdoutPipe(); err != nil {
		return 0, 0, err
	}
	if err := errors.Join(writer.Start(), reader.Start(), reader.Wait(), writer.Wait()); err != nil {
		return 0, 0, err
	}
	return time.Since(began), reader.ProcessState.UserTime() + reader.ProcessState.SystemTime(), nil
}

func thousand(_ string, s server) ([]value, error) {
	if s.name == "mcp-go" {
		return nil, errCannot // runs 100 calls at once at most
	}
	const tasks, chunks, interval = 1000, 60, 50
	c, err := open(s)
	if err != nil {
		return nil, err
	}
	defer c.end()
	calls := ""
	for i := range tasks {
		calls += c.streamLine(i+1, chunks, interval) + "\n"
	}
	go func() { _, _ = c.in.WriteString(calls) }()
	var all []time.Duration
	var cpu float64
	counted, lines := 0, 0
	err = c.each(func(line []byte) bool {
		lines++
		if i := bytes.Index(line, []byte(" t=")); i >= 0 && lines > tasks*chunks/6 {
			if counted++; counted == 1 {
				cpu = c.cpu()
			}
			nanos, _ := strconv.ParseInt(string(line[i+3:i+22]), 10, 64)
			all = append(all, time.Since(time.Unix(0, nanos)))
		}
		return counted < tasks*chunks*2/3
	})
	if err != nil {
		return nil, err
	}
	values := []value{
		{"1,000 tasks, a chunk each 50 ms: delivery p50", quantile(all, 50), "ns"},
		{"1,000 tasks, a chunk each 50 ms: delivery p99", quantile(all, 99), "ns"},
		{"1,000 tasks, a chunk each 50 ms: CPU a chunk", (c.cpu() - cpu) / float64(counted), "ns"},
		{"1,000 tasks, a chunk each 50 ms: peak memory", c.memory("VmHWM"), "MiB"},
	}
	_ = c.cmd.Process.Kill()
	return values, nil
}

// eight streams from eight tasks flat out, and from one, and counts whose chunks come in a second.
func eight(_ string, s server) ([]value, error) {
	if !s.task {
		return nil, errCannot // its chunks do not tell whose they are, or nobody asks it to be fair
	}
	sum, most, memory, err := flatOut(s, 8)
	if err != nil {
		return nil, err
	}
	one, _, _, err := flatOut(s, 1)
	return []value{
		{"8 tasks flat out: sum", sum, "/s"},
		{"8 tasks flat out: sum of one task's", 100 * sum / one, "%"},
		{"8 tasks flat out: largest share of the smallest", most, "×"},
		{"8 tasks flat out: private memory", memory, "MiB"},
	}, err
}

// flatOut returns how many chunks of n tasks come in a second, what the largest share is of the smallest, and
// the memory in MiB.
func flatOut(s server, n int) (rate, most, memory float64, err error) {
	c, err := open(s)
	if err != nil {
		return 0, 0, 0, err
	}
	defer func() { _ = c.cmd.Process.Kill(); c.end() }()
	for i := range n {
		c.stream(i+1, 1<<40, 0)
	}
	shares := map[string]*int{}
	warm := time.Now()
	var began time.Time
	lines := 0
	err = c.each(func(line []byte) bool {
		lines++
		if began.IsZero() {
			if time.Since(warm) > time.Second/4 {
				began = time.Now()
			}
			return true
		}
		if i := bytes.Index(line, []byte(`"taskId":"`)); i >= 0 {
			id := line[i+10 : i+46]
			if shares[string(id)] == nil {
				shares[string(id)] = new(int)
			}
			*shares[string(id)]++
		}
		return lines%1024 != 0 || time.Since(began) < time.Second
	})
	took := time.Since(began).Seconds()
	sum := 0
	largest := 0
	smallest := math.MaxInt
	for _, n := range shares {
		sum = sum + *n
		largest = max(largest, *n)
		smallest = min(smallest, *n)
	}
	return float64(sum) / took, float64(largest) / float64(smallest), c.private(), err
}

func idle(_ string, s server) ([]value, error) {
	c, err := open(s)
	if err != nil {
		return nil, err
	}
	defer c.end()
	const rest, watch = 1500 * time.Millisecond, 2 * time.Second // the rest of a start has been done by then
	time.Sleep(rest)
	switches := c.switches()
	time.Sleep(watch)
	values := []value{
		{"memory after the handshake", c.memory("VmRSS"), "MiB"},
		{"idle: context switches in two seconds", c.switches() - switches, ""},
	}
	const instances = 5 // with c
	for range instances - 1 {
		other, err := open(s)
		if err != nil {
			return nil, err
		}
		defer other.end()
	}
	time.Sleep(rest)
	return append(values, value{"one of five: private memory", c.private(), "MiB"},
		value{"one of five: proportional share (PSS)", c.rollup("Pss:"), "MiB"}), nil
}

// quantile of durations in nanoseconds.
func quantile(all []time.Duration, percent int) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return float64(all[min(len(all)*percent/100, len(all)-1)])
}
