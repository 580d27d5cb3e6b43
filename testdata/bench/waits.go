package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Where a user waits: reading a stored log, asking for a task, a server through this one, and what a client
// of the stateless era sends before and in each turn of a model. Each with what it may grow with.
func init() {
	measurements = append(measurements,
		measurement{"log, page by page", "runnel", logPages},
		measurement{"tasks/get of a large result", "runnel", largeResult},
		measurement{"upstreams", "runnel", upstreams},
		measurement{"stateless echo", "runnel", statelessEcho},
		measurement{"wrapped call", "runnel", wrapped},
		measurement{"tools/list", "", listTools},
	)
}

// logPages reads the log of a task that has ended from its beginning to its end: of a command, and of a tool
// that wrote a chunk for each line.
func logPages(dir string, s server) (values []value, err error) {
	const lines, perLine = 4_000_000, 50 // a million lines are 50 MB
	file := filepath.Join(dir, "log")
	line := []byte(strings.Repeat("x", perLine-len("\"quoted\" \n")) + "\"quoted\" \n")
	for _, log := range []struct {
		name, call string
		lines      int
	}{
		{"a command's log of 1 MB", "cat", lines / 200},
		{"a command's log of 100 MB", "cat", lines / 2},
		{"a log of 1 MB in lines", "stream", lines / 200},
		{"a log of 100 MB in lines", "stream", lines / 2},
		{"the last 100 MB of a log of 1 GB in lines", "stream", lines * 5},
	} {
		if log.call == "cat" {
			if err := os.WriteFile(file, bytes.Repeat(line, log.lines), 0o600); err != nil {
				return nil, err
			}
		}
		read, err := readLog(dir, s, file, log.call, log.lines)
		if err != nil {
			return nil, err
		}
		for _, v := range read {
			values = append(values, value{"read " + log.name + ": " + v.row, v.number, v.unit})
		}
	}
	return values, nil
}

func readLog(dir string, s server, file, tool string, lines int) ([]value, error) {
	s, remove, err := onDisk(dir, s)
	if err != nil {
		return nil, err
	}
	defer remove()
	c, err := open(s, "--tool", "cat=cat "+file, "--pace", "50ms")
	if err != nil {
		return nil, err
	}
	defer c.end()
	if tool == "stream" {
		c.stream(1, lines, 0)
	} else {
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%s","arguments":{},"task":{}}}`, tool)
	}
	id := ""
	err = c.each(func(line []byte) bool {
		if at := bytes.Index(line, []byte(`"taskId":"`)); at >= 0 && id == "" {
			id = string(line[at+10 : at+46])
		}
		return !bytes.Contains(line, []byte(`"status":"completed"`))
	})
	if err != nil {
		return nil, err
	}
	if err := c.out.SetReadDeadline(time.Now().Add(watchdog)); err != nil {
		return nil, err
	}
	var pages []time.Duration
	const most = 100_000_000 // only the end of a longer log is read
	begin := max(0, lines*50-most)
	cpu := c.cpu()
	next := begin
	size := 0
	for {
		began, after := time.Now(), next
		c.send(`{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"runnel://tasks/%s/log?after=%d"}}`, id, after)
		err := c.each(func(line []byte) bool {
			size = len(line)
			if at := bytes.LastIndex(line, []byte(`"runnel/next":`)); at >= 0 {
				digits := line[at+14:]
				next, _ = strconv.Atoi(string(digits[:bytes.IndexByte(digits, '}')]))
			}
			return false
		})
		if err != nil {
			return nil, err
		}
		if next <= after {
			break
		}
		pages = append(pages, time.Since(began))
	}
	if next < lines*50 {
		return nil, fmt.Errorf("%d of %d bytes were read; the last answer has %d", next, lines*50, size)
	}
	return []value{
		{"a page", quantile(pages, 50), "ns"},
		{"CPU a byte", (c.cpu() - cpu) / float64(next-begin), "ns"},
	}, nil
}

// largeResult asks for a task that has ended, on the disk.
func largeResult(dir string, s server) (values []value, err error) {
	s, remove, err := onDisk(dir, s)
	if err != nil {
		return nil, err
	}
	defer remove()
	c, err := open(s)
	if err != nil {
		return nil, err
	}
	defer c.end()
	for _, size := range []int{1 << 10, 100 << 10, 500 << 10} {
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"%s"},"task":{}}}`, strings.Repeat("text ", size/5))
		id := ""
		err := c.each(func(line []byte) bool {
			if at := bytes.Index(line, []byte(`"taskId":"`)); at >= 0 && id == "" {
				id = string(line[at+10 : at+46])
			}
			return !ended(line)
		})
		if err != nil {
			return nil, err
		}
		took, err := c.median(`"method":"tasks/get","params":{"taskId":"` + id + `"}`)
		if err != nil {
			return nil, err
		}
		values = append(values, value{fmt.Sprintf("tasks/get, a result of %d KiB", size>>10), took, "ns"})
	}
	return values, nil
}

// median sends a request again and again, and returns how long an answer takes.
func (c *session) median(request string) (float64, error) {
	took, err := c.times(200, request)
	return quantile(took, 50), err
}

// times sends a request so often, and returns how long the answers take. Each has the time of the watchdog: 7
// MiB on a busy machine take a second.
func (c *session) times(often int, request string) (all []time.Duration, err error) {
	for i := range often {
		if err := c.out.SetReadDeadline(time.Now().Add(watchdog)); err != nil {
			return nil, err
		}
		began := time.Now()
		c.send(`{"jsonrpc":"2.0","id":%d,%s}`, 1000+i, request)
		refused := false
		err := c.each(func(line []byte) bool {
			refused = bytes.Contains(line, []byte(`"error":{`))
			return false
		})
		if err != nil || refused {
			return nil, fmt.Errorf("%s: refused: %v, %w", request, refused, err)
		}
		all = append(all, time.Since(began))
	}
	return all[often/10:], nil // the first ones warm up
}

// wrapped calls the floor directly and through runnel wrap.
func wrapped(dir string, s server) (values []value, err error) {
	floor := filepath.Join(dir, "floor")
	direct, through := s, s
	direct.argv = []string{floor}
	through.argv = append(s.argv[:1:1], "wrap", "--state", "memory", "--log-level", "error", "--", floor)
	for _, size := range []struct {
		tool, name string
		often      int
	}{{"echo", "a small result", 500}, {"large", "7 MiB", 10}, {"large", "7 MiB, more often", 40}} {
		var took [2][]time.Duration
		for i, server := range []server{direct, through} {
			c, err := open(server)
			if err != nil {
				return nil, err
			}
			took[i], err = c.times(size.often,
				`"method":"tools/call","params":{"name":"`+size.tool+`","arguments":{}}`)
			if i == 1 {
				values = append(values, value{size.name + ": peak memory", c.memory("VmHWM"), "MiB"})
			}
			c.end()
			if err != nil {
				return nil, err
			}
		}
		for _, percent := range []int{50, 99} {
			direct := quantile(took[0], percent)
			through := quantile(took[1], percent)
			name := fmt.Sprintf("%s, p%d", size.name, percent)
			values = append(values, value{name + ", direct", direct, "ns"},
				value{name + ", wrapped", through, "ns"}, value{name + ": added", through - direct, "ns"})
		}
	}
	return values, nil
}

// upstreams streams through runnel what another server writes, as fast as that one can.
func upstreams(dir string, s server) (values []value, err error) {
	talker := func(order string) string {
		return fmt.Sprintf("[%q, %s]",
			filepath.Join(dir, "talker"), order)
	}
	runnel := func(flags ...string) string {
		return `["` + strings.Join(append([]string{s.argv[0], "--state", "memory", "--pace", "0",
			"--log-level", "error"}, flags...), `", "`) + `"]`
	}
	selftest := runnel("--selftest")
	middle, err := upstreamConfig(dir, "middle", selftest, 1)
	if err != nil {
		return nil, err
	}
	for _, up := range []struct {
		name, command string
		count, many   int
	}{
		{"an upstream, members as the Go SDK writes them", talker("go"), 500_000, 1},
		{"an upstream, members as the TypeScript SDK writes them", talker("typescript"), 500_000, 1},
		{"2 upstreams", talker("go"), 250_000, 2},
		{"4 upstreams", talker("go"), 125_000, 4},
		{"8 upstreams", talker("go"), 100_000, 8},
		{"one hop: runnel before runnel", selftest, 300_000, 1},
		{"two hops", runnel("--config", middle), 300_000, 1},
	} {
		front, err := upstreamConfig(dir, "front", up.command, up.many)
		if err != nil {
			return nil, err
		}
		one := s
		one.argv = append(s.argv[:1:1], "--state", "memory", "--pace", "0", "--log-level", "error")
		c, err := open(one, "--config", front)
		if err != nil {
			return nil, err
		}
		tool := "stream"
		if up.name == "two hops" {
			tool = "u0_stream"
		}
		for round := range 2 { // the first one starts the upstreams
			count := up.count
			if round == 0 {
				count = 1000
			}
			cpu, began := c.cpu(), time.Now()
			for i := range up.many {
				c.send(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"u%d_%s","arguments":{"count":%d,"intervalMs":0},"task":{}}}`, round*100+i, i, tool, count)
			}
			partials, completed := 0, 0
			err = c.each(func(line []byte) bool {
				if bytes.Contains(line, []byte(`tasks/partial"`)) {
					partials++
				} else if ended(line) {
					completed++
				}
				return completed < up.many
			})
			if n := up.many * count; err == nil && partials < n {
				err = fmt.Errorf("%d of %d notifications came", partials, n)
			}
			if err != nil {
				break
			}
			if round > 0 {
				n := float64(up.many * count)
				values = append(values, value{up.name + ": notifications",
					n / time.Since(began).Seconds(), "/s"},
					value{up.name + ": notifications, CPU each", (c.cpu() - cpu) / n, "ns"})
			}
		}
		c.end()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", up.name, err)
		}
	}
	return values, nil
}

// upstreamConfig writes a config of so many upstreams u0, u1 ..., each the same command.
func upstreamConfig(dir, name, command string, many int) (file string, err error) {
	config := "upstreams:\n"
	for i := range many {
		config += fmt.Sprintf("  u%d: {command: %s, prefix: u%d_}\n", i, command, i)
	}
	file = filepath.Join(dir, name+".yaml")
	return file, os.WriteFile(file, []byte(config), 0o600)
}

// statelessMeta is what a client of the stateless era sends with each request.
const statelessMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},` +
	`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`

func statelessEcho(_ string, s server) ([]value, error) {
	c, err := start(s)
	if err != nil {
		return nil, err
	}
	defer c.end()
	values, err := echoes(c, `,`+statelessMeta)
	for i := range values {
		values[i].row = "stateless " + values[i].row
	}
	return values, err
}

// listTools asks for lists of tools, whole ones: of a session, and of the stateless era.
func listTools(dir string, s server) (values []value, err error) {
	if s.name == "floor" || s.name == "sourcegraph/jsonrpc2" {
		return nil, errCannot
	}
	for _, many := range []int{10, 50, 1000} {
		file, err := toolsConfig(dir, many)
		if err != nil {
			return nil, err
		}
		offers := []string{"--config", file}
		if !s.task {
			offers = []string{"-tools", strconv.Itoa(many)}
		}
		c, err := open(s, offers...)
		if err != nil {
			return nil, err
		}
		session, err := c.median(`"method":"tools/list","params":{}`)
		c.end()
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("tools/list, %d tools", many)
		values = append(values, value{name, session, "ns"})
		if !s.task {
			continue
		}
		if c, err = start(s, offers...); err != nil {
			return nil, err
		}
		stateless, err := c.median(`"method":"tools/list","params":{` + statelessMeta + `}`)
		c.end()
		if err != nil {
			return nil, err
		}
		values = append(values, value{name + ", stateless", stateless, "ns"})
	}
	return values, nil
}
