package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// States side by side, the columns of a table of their own (-states): what a task costs in each, and how fast
// another process follows it. The runnels and the servers of the state are all on this machine.

// state is one that is measured.
type state struct {
	name  string
	begin func(dir string) (url string, servers []*exec.Cmd, err error)
}

var states = []state{
	{"SQLite", func(dir string) (string, []*exec.Cmd, error) {
		return filepath.Join(dir, "state"),
			nil, nil
	}},
	{"NATS, one server", func(dir string) (string, []*exec.Cmd, error) { return startNATS(dir, 1) }},
	{"NATS, three servers", func(dir string) (string, []*exec.Cmd, error) { return startNATS(dir, 3) }},
	{"Redis", startRedis},
	{"DynamoDB's stand-in", startDynamoDB},
}

const (
	stateCalls   = 200
	stateStreams = 20
	stateChunks  = 100
	stateEach    = 50 // ms
)

// benchStates measures each state in turn, some times.
func benchStates(rounds int, only string) error {
	dir, err := os.MkdirTemp("", "runnel-states")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := buildForStates(dir); err != nil {
		return err
	}
	var columns []server
	for _, st := range states {
		columns = append(columns, server{name: st.name})
	}
	t := newTable(columns)
	for range rounds {
		for _, m := range stateMeasurements {
			if !strings.Contains(m.name, only) {
				continue
			}
			for _, st := range states {
				if m.only != "" && m.only != st.name {
					continue
				}
				fmt.Fprintf(os.Stderr, "%s: %s\n", m.name, st.name)
				values, err := withState(dir, st, m.take)
				if err != nil {
					return fmt.Errorf("%s in %s: %w", m.name, st.name, err)
				}
				t.add(st.name, values)
			}
		}
	}
	t.print(os.Stdout)
	return nil
}

// buildPrograms builds runnel with all its states, a NATS server, and what writes on workers.
func buildPrograms(dir string) error {
	return runAll(
		exec.Command("go", "-C", "../..", "build", "-tags", "dynamodb", "-o",
			filepath.Join(dir, "runnel"), "."),
		exec.Command("go", "build", "-o", dir+"/", "github.com/nats-io/nats-server/v2", "./ticker"),
	)
}

// buildForStates is buildPrograms, and installs what stands in for DynamoDB.
func buildForStates(dir string) error {
	if err := buildPrograms(dir); err != nil {
		return err
	}
	return runAll(
		exec.Command("cp", "-r", "../../internal/dynatest/npm", dir),
		exec.Command("npm", "--prefix", filepath.Join(dir, "npm"), "ci", "--ignore-scripts", "--no-audit",
			"--no-fund", "--silent"),
	)
}

func runAll(builds ...*exec.Cmd) error {
	for _, build := range builds {
		build.Env, build.Stderr = append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("%v: %w", build.Args, err)
		}
	}
	return nil
}

// stateRun is a state with its servers, and the runnels that use it.
type stateRun struct {
	dir, url string
	programs string
	runnel   string
	pids     []int
}

// withState measures in a new state.
func withState(programs string, st state, take func(r *stateRun) ([]value, error)) ([]value, error) {
	dir, err := os.MkdirTemp(programs, "state")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	url, servers, err := st.begin(dir)
	defer func() {
		for _, s := range servers {
			_ = s.Process.Kill()
			_ = s.Wait()
		}
	}()
	if err != nil {
		return nil, err
	}
	r := &stateRun{dir: dir, url: url, programs: programs, runnel: filepath.Join(programs, "runnel")}
	for _, s := range servers {
		r.pids = append(r.pids, s.Process.Pid)
	}
	return take(r)
}

// open starts a runnel on the state.
func (r *stateRun) open(flags ...string) (*session, error) {
	argv := append([]string{r.runnel, "--state", r.url, "--pace", "0",
		"--max-tasks", "200000", "--max-in-flight", "2000", "--log-level", "error"}, flags...)
	c, err := open(server{argv: argv, task: true})
	if err == nil {
		r.pids = append(r.pids, c.cmd.Process.Pid)
		// states are servers, and machines loaded.
		err = c.out.SetReadDeadline(time.Now().Add(10 * time.Minute))
	}
	return c, err
}

// cpu is the processor time of all the runnels and servers, in nanoseconds.
func (r *stateRun) cpu() (sum float64) {
	for _, pid := range r.pids {
		sum += cpuOf(pid)
	}
	return sum
}

func startNATS(dir string, n int) (url string, servers []*exec.Cmd, err error) {
	ports, err := freePorts(2 * n)
	if err != nil {
		return "", nil, err
	}
	var hosts, routes []string
	for i := range n {
		hosts = append(hosts, fmt.Sprint("127.0.0.1:", ports[i]))
		routes = append(routes, fmt.Sprint("nats://127.0.0.1:", ports[n+i]))
	}
	for i := range n {
		args := []string{"-js", "-a", "127.0.0.1", "-p", strconv.Itoa(ports[i]), "-n", fmt.Sprint("node", i),
			"-sd", filepath.Join(dir, fmt.Sprint("node", i))}
		if n > 1 {
			args = append(args, "--cluster_name", "bench", "--cluster", routes[i], "--routes",
				strings.Join(routes, ","))
		}
		s := exec.Command(filepath.Join(filepath.Dir(dir), "nats-server"), args...)
		if err := s.Start(); err != nil {
			return "", servers, err
		}
		servers = append(servers, s)
	}
	url = fmt.Sprintf("nats://%s?replicas=%d", strings.Join(hosts, ","), n)
	return url, servers, untilReady(filepath.Join(filepath.Dir(dir), "runnel"), url)
}

func startRedis(dir string) (string, []*exec.Cmd, error) {
	ports, err := freePorts(1)
	if err != nil {
		return "", nil, err
	}
	s := exec.Command("redis-server", "--port", strconv.Itoa(ports[0]), "--bind", "127.0.0.1", "--save", "",
		"--appendonly", "yes", "--dir", dir)
	if err := s.Start(); err != nil {
		return "", nil, err
	}
	url := fmt.Sprint("redis://127.0.0.1:", ports[0])
	return url, []*exec.Cmd{s}, untilReady(filepath.Join(filepath.Dir(dir), "runnel"), url)
}

// startDynamoDB runs Dynoxide, which speaks DynamoDB's protocol, on the disk, and makes the table.
func startDynamoDB(dir string) (string, []*exec.Cmd, error) {
	ports, err := freePorts(1)
	if err != nil {
		return "", nil, err
	}
	s := exec.Command(filepath.Join(filepath.Dir(dir), "npm", "node_modules", "@dynoxide", "linux-x64",
		"dynoxide"), "serve", "--port", strconv.Itoa(ports[0]), "--db-path", filepath.Join(dir, "table"))
	if err := s.Start(); err != nil {
		return "", nil, err
	}
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench",
		"AWS_EC2_METADATA_DISABLED": "true"} {
		if err := os.Setenv(name, value); err != nil {
			return "", []*exec.Cmd{s}, err
		}
	}
	endpoint := fmt.Sprint("http://127.0.0.1:", ports[0])
	for range 100 {
		if err = createTable(endpoint); err == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err != nil {
		return "", []*exec.Cmd{s}, err
	}
	url := "dynamodb://runnel?region=bench&endpoint=" + endpoint
	return url, []*exec.Cmd{s}, untilReady(filepath.Join(filepath.Dir(dir), "runnel"), url)
}

// createTable makes the table as the manual says. The server wants a signature, and does not look at it.
func createTable(endpoint string) error {
	const table = `{"TableName":"runnel","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"},{"AttributeName":"sk","AttributeType":"S"}],` +
		`"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"},{"AttributeName":"sk","KeyType":"RANGE"}]}`
	request, err := http.NewRequest(http.MethodPost, endpoint, strings.NewReader(table))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-amz-json-1.0")
	request.Header.Set("X-Amz-Target", "DynamoDB_20120810.CreateTable")
	request.Header.Set("X-Amz-Date", "20260101T000000Z")
	request.Header.Set("Authorization",
		"AWS4-HMAC-SHA256 Credential=bench/20260101/bench/dynamodb/aws4_request, SignedHeaders=host, Signature=0")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("making the table: %s", answer.Status)
	}
	return nil
}

// untilReady waits until a state can be listed, which makes it.
func untilReady(runnel, url string) (err error) {
	for range 100 {
		list := exec.Command(runnel, "tasks", "list", "--state", url)
		list.Dir = os.TempDir()
		var out []byte
		if out, err = list.CombinedOutput(); err == nil {
			return nil
		}
		err = fmt.Errorf("%w: %s", err, out)
		time.Sleep(200 * time.Millisecond)
	}
	return err
}

func freePorts(n int) (ports []int, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

var stateMeasurements = []struct {
	name string
	only string // the one state that can do it, "" for all
	take func(r *stateRun) ([]value, error)
}{
	{"calls", "", stateCost},
	{"followed", "", followed},
	{"growth", "SQLite", stateGrowth},
	{"growth", "NATS, one server", stateGrowth},
	{"growth", "Redis", stateGrowth}, // DynamoDB's stand-in would take half an hour
	{"fleet", "NATS, one server", fleetScale},
	{"fleet", "NATS, three servers", fleetScale},
}

// stateCost measures tasks one after the other, then 64 at once, and asks about them in another process.
func stateCost(r *stateRun) ([]value, error) {
	here, err := r.open("--selftest")
	if err != nil {
		return nil, err
	}
	defer here.end()
	there, err := r.open("--selftest")
	if err != nil {
		return nil, err
	}
	defer there.end()
	var starts, ends []time.Duration
	for i := range stateCalls {
		began := time.Now()
		here.send("%s", strings.TrimSpace(fmt.Sprintf(echoTask, i+1)))
		if _, err := here.line(); err != nil {
			return nil, err
		}
		starts = append(starts, time.Since(began))
		if err := here.each(func(line []byte) bool {
			return !bytes.Contains(line,
				[]byte(`"method":"notifications/tasks/status"`))
		}); err != nil {
			return nil, err
		}
		ends = append(ends, time.Since(began))
	}
	got, listed, err := there.ask()
	if err != nil {
		return nil, err
	}
	values := []value{
		{"a task: handle", quantile(starts, 50), "ns"},
		{"a task: handle, p99", quantile(starts, 99), "ns"},
		{"a task: end", quantile(ends, 50), "ns"},
		{"tasks/get elsewhere", got, "ns"},
		{"tasks/list elsewhere, a page", listed, "ns"},
	}
	began := time.Now()
	cpu := r.cpu()
	many := 0
	if err := here.tasks(func(ended int) bool { many = ended; return time.Since(began) > 2*echoTime }); err != nil {
		return nil, err
	}
	return append(values,
		value{"64 tasks in flight", float64(many) / time.Since(began).Seconds(), "/s"},
		value{"64 tasks in flight, CPU each", (r.cpu() - cpu) / float64(many), "ns"}), nil
}

const listening = `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"extensions":` +
	`{"io.modelcontextprotocol/tasks":{},"runnel/task-partials":{}}}},"notifications":{"taskIds":%s}}}`

// followed streams some tasks in one process and follows them in another: how long it takes from the append
// to the other's client.
func followed(r *stateRun) ([]value, error) {
	here, err := r.open("--selftest")
	if err != nil {
		return nil, err
	}
	defer here.end()
	there, err := r.open("--selftest")
	if err != nil {
		return nil, err
	}
	defer there.end()
	var ids []string
	for i := range stateStreams {
		here.stream(i+1, stateChunks, stateEach)
	}
	handles, err := here.handles(stateStreams)
	if err != nil {
		return nil, err
	}
	go func() { _ = here.each(func([]byte) bool { return true }) }()
	for _, id := range handles {
		ids = append(ids, id)
	}
	encoded, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	there.send(listening, encoded)
	all, cpu, err := there.delays(stateStreams*stateChunks/2, stateStreams*stateChunks/5, r.cpu)
	return []value{
		{"append to another's client, 20 tasks: p50", quantile(all, 50), "ns"},
		{"append to another's client, 20 tasks: p99", quantile(all, 99), "ns"},
		{"append to another's client, 20 tasks: CPU a chunk", cpu / float64(len(all)), "ns"},
	}, err
}

// handles reads lines until n tasks have handles.
func (c *session) handles(n int) (ids []string, err error) {
	err = c.each(func(line []byte) bool {
		var created struct {
			Result struct{ Task struct{ TaskID string } }
		}
		if bytes.Contains(line, []byte(`"result"`)) && json.Unmarshal(line, &created) == nil &&
			created.Result.Task.TaskID != "" {
			ids = append(ids, created.Result.Task.TaskID)
		}
		return len(ids) < n
	})
	return ids, err
}

// delays reads n chunks that carry their time, after some that are not counted, and returns how old each was
// and the processor time meanwhile.
func (c *session) delays(n, skipped int, cpu func() float64) (all []time.Duration, used float64, err error) {
	seen, before := 0, 0.0
	mark := []byte(" t=")
	err = c.each(func(line []byte) bool {
		for {
			i := bytes.Index(line, mark)
			if i < 0 || len(line) < i+22 {
				return len(all) < n
			}
			if seen++; seen == skipped {
				before = cpu()
			}
			nanos, _ := strconv.ParseInt(string(line[i+3:i+22]), 10, 64)
			if seen > skipped {
				all = append(all, time.Since(time.Unix(0, nanos)))
			}
			line = line[i+22:]
		}
	})
	return all, cpu() - before, err
}

// stateGrowth measures requests about tasks, and what a process that does nothing costs, when few are stored
// and when many are.
func stateGrowth(r *stateRun) (values []value, err error) {
	here, err := r.open("--selftest")
	if err != nil {
		return nil, err
	}
	defer here.end()
	stored := 0
	for _, many := range []int{1_000, 10_000, 100_000} {
		_ = here.out.SetReadDeadline(time.Now().Add(time.Hour))
		began := time.Now()
		if err := here.tasks(func(ended int) bool { return stored+ended >= many }); err != nil {
			return nil, err
		}
		took := time.Since(began)
		there, err := r.open("--selftest")
		if err != nil {
			return nil, err
		}
		got, listed, err := there.ask()
		there.end()
		if err != nil {
			return nil, err
		}
		cpu := r.cpu()
		const idle = 10 * time.Second // two sweeps
		time.Sleep(idle)
		name := fmt.Sprintf("%d tasks stored: ", many)
		values = append(values,
			value{name + "each, started and ended", float64(took.Nanoseconds()) / float64(many-stored), "ns"},
			value{name + "tasks/get", got, "ns"}, value{name + "tasks/list, a page", listed, "ns"},
			value{name + "CPU of a second without work", (r.cpu() - cpu) / idle.Seconds(), "ns"})
		stored = many
	}
	return values, nil
}

// fleetScale runs tasks on eight workers, each with a chunk each 50 ms, and measures when it reaches the
// client of one front.
func fleetScale(r *stateRun) (values []value, err error) {
	const workers, chunks = 8, 120
	front, worker := filepath.Join(r.dir, "front.yaml"), filepath.Join(r.dir, "worker.yaml")
	for file, text := range map[string]string{
		front:  "tools: {stream: {runs: builds, input: {count: {type: integer}, intervalMs: {type: integer}}}}",
		worker: fmt.Sprintf("tools: {stream: {runs: builds, command: [%q, '{{count}}', '{{intervalMs}}'], input: {count: {type: integer}, intervalMs: {type: integer}}}}", filepath.Join(r.programs, "ticker")),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	for range workers {
		w := exec.Command(r.runnel, "work", "--state", r.url, "--config", worker,
			"--slots", "125", "--log-level", "error")
		w.Stderr = os.Stderr
		if err := w.Start(); err != nil {
			return nil, err
		}
		defer func() { _ = w.Process.Kill(); _ = w.Wait() }()
		r.pids = append(r.pids, w.Process.Pid)
	}
	for _, tasks := range []int{100, 300, 1000} {
		more, err := r.fleetOf(front, tasks, chunks)
		if err != nil {
			return nil, err
		}
		values = append(values, more...)
	}
	return values, nil
}

// fleetOf calls so many tasks at once.
func (r *stateRun) fleetOf(config string, tasks, chunks int) ([]value, error) {
	c, err := r.open("--config", config)
	if err != nil {
		return nil, err
	}
	defer func() {
		_ = c.cmd.Process.Kill()
		r.pids = slices.DeleteFunc(r.pids, func(pid int) bool { return pid == c.cmd.Process.Pid })
		c.end()
	}()
	began, lines := time.Now(), ""
	for i := range tasks {
		lines += c.streamLine(i+1, chunks, stateEach) + "\n"
	}
	go func() { _, _ = c.in.WriteString(lines) }()
	all, cpu, err := c.delays(tasks*chunks/3, tasks*chunks/2, r.cpu)
	name := fmt.Sprintf("8 workers, %d tasks, a chunk each 50 ms: ", tasks)
	return []value{
		{name + "delivery p50", quantile(all, 50), "ns"},
		{name + "delivery p99", quantile(all, 99), "ns"},
		{name + "CPU a chunk (front, workers, servers)", cpu / float64(len(all)), "ns"},
		{name + "chunks", float64(tasks*chunks*5/6) / time.Since(began).Seconds(), "/s"},
	}, err
}
