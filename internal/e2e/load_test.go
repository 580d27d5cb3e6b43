package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// A thousand tasks write at once, each every 50 ms, and the client reads nothing for 3 s in the middle:
// all is delivered, in order, and memory stays within bounds.
func TestThousandTasks(t *testing.T) {
	t.Parallel()
	const (
		tasks   = 1000
		chunks  = 100 // 5 s of output
		size    = 50
		before  = time.Second // how long it reads, from the first task on
		stalled = 3 * time.Second
		// bytes: about 50 KiB a task (goroutines, log block, record), doubled by the collector, and the
		// buffers.
		mostPeak = 192 << 20
	)
	s := process(t, programCommand(t, "--selftest", "--max-tasks", fmt.Sprint(tasks),
		"--max-in-flight", "2000"))
	s.open()
	began := time.Now()
	for i := range tasks {
		s.sendLine(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"stream","arguments":{"count":%d,"bytes":%d,"intervalMs":50},"task":{}}}`, i+1, chunks, size)
	}
	type arrival struct {
		line []byte
		at   time.Time
	}
	var lines []arrival
	stall := time.AfterFunc(time.Until(began.Add(before)), s.stall)
	defer stall.Stop()
	resume := time.AfterFunc(time.Until(began.Add(before+stalled)), s.resume)
	defer resume.Stop()
	for ended := 0; ended < tasks; {
		line, err := s.take(watchdog)
		if err != nil {
			t.Fatalf("%d tasks have ended, %d lines: %v\nstderr:\n%s", ended, len(lines), err, s.stderr)
		}
		lines = append(lines, arrival{line, time.Now()})
		if bytes.Contains(line, []byte(`"notifications/tasks/status"`)) &&
			bytes.Contains(line, []byte(`"completed"`)) {
			ended++
		}
	}
	took := time.Since(began)
	peak, known := peakRSS(s.pid)

	// Only now is there time to look at them.
	text := map[string]*strings.Builder{}
	var late []time.Duration
	for _, l := range lines {
		if err := s.audit.received(l.line, time.Time{}); err != nil {
			t.Fatalf("%s: %v", clipLine(l.line), err)
		}
		p, err := decodePartial(l.line)
		if err != nil {
			continue
		}
		b := text[p.Params.TaskID]
		if b == nil {
			b = &strings.Builder{}
			text[p.Params.TaskID] = b
		}
		written := p.text()
		b.WriteString(written)
		if at := l.at.Sub(began); at < before || at > before+stalled+time.Second {
			late = append(late, l.at.Sub(chunkTime(t, written)))
		}
	}
	if len(text) != tasks {
		t.Fatalf("%d tasks have written, want %d", len(text), tasks)
	}
	for id, b := range text {
		if err := checkChunks(b.String(), chunks, size); err != nil {
			t.Errorf("task %s: %v", id, err)
		}
	}
	s.results(text, fmt.Sprintf("streamed %d chunks", chunks))
	s.listed(text)
	if rest, code, err := s.finish(); err != nil || code != 0 || len(rest) > 0 {
		t.Errorf("at the end: %d lines, exit code %d, %v", len(rest), code, err)
	}
	slices.Sort(late)
	t.Logf("%d tasks, %d chunks in %d lines, %v; peak memory %d MiB; chunk to client: median %v, 99%% %v",
		tasks, tasks*chunks, len(lines), took.Round(time.Millisecond), peak>>20,
		late[len(late)/2].Round(time.Microsecond), late[len(late)*99/100].Round(time.Microsecond))
	if known && peak > mostPeak {
		t.Errorf("peak memory %d MiB, want at most %d", peak>>20, mostPeak>>20)
	}
}

// chunkTime is when the last chunk of the text was written.
func chunkTime(t *testing.T, text string) time.Time {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	m := chunk.FindStringSubmatch(lines[len(lines)-1])
	var nanos int64
	if m != nil {
		_, _ = fmt.Sscan(m[3], &nanos)
	}
	if nanos == 0 {
		t.Fatalf("chunk without a time: %q", text)
	}
	return time.Unix(0, nanos)
}

// results fetches the result of every task at once.
func (s *session) results(tasks map[string]*strings.Builder, want string) {
	s.t.Helper()
	for id := range tasks {
		s.sendLine(`{"jsonrpc":"2.0","id":"result %s","method":"tasks/result","params":{"taskId":"%s"}}`, id,
			id)
	}
	for range tasks {
		if line := s.line(); !bytes.Contains(line, []byte(want)) {
			s.t.Fatalf("result is %s", clipLine(line))
		}
	}
}

// listed pages through tasks/list, which must show every task once.
func (s *session) listed(tasks map[string]*strings.Builder) {
	s.t.Helper()
	seen := map[string]bool{}
	for cursor, page := "", 0; ; page++ {
		params, _ := json.Marshal(map[string]string{"cursor": cursor})
		if cursor == "" {
			params = []byte("{}")
		}
		s.sendLine(`{"jsonrpc":"2.0","id":"page %d","method":"tasks/list","params":%s}`, page, params)
		var answer struct {
			Result struct {
				Tasks      []shownTask `json:"tasks"`
				NextCursor string      `json:"nextCursor"`
			} `json:"result"`
		}
		if err := json.Unmarshal(s.line(), &answer); err != nil {
			s.t.Fatal(err)
		}
		for _, task := range answer.Result.Tasks {
			if seen[task.TaskID] || tasks[task.TaskID] == nil {
				s.t.Fatalf("task %s is listed twice or is nobody's", task.TaskID)
			}
			seen[task.TaskID] = true
		}
		if cursor = answer.Result.NextCursor; cursor == "" {
			break
		}
	}
	if len(seen) != len(tasks) {
		s.t.Errorf("%d tasks are listed, want %d", len(seen), len(tasks))
	}
}

// A tool that writes as fast as it can never outruns a client that reads nothing: it waits, so that what is
// not delivered is bounded. When the client reads again it gets all of it.
func TestFastTalkerIsBounded(t *testing.T) {
	t.Parallel()
	const (
		chunks = 100_000
		size   = 50
		// bytes: 1 MiB not yet delivered, 4 MiB kept, the output buffers, and the collector's slack.
		mostPeak = 48 << 20
	)
	s := process(t, programCommand(t, "--selftest"))
	s.open()
	s.sendLine(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"stream","arguments":{"count":%d,"bytes":%d},"task":{}}}`, chunks, size)
	s.line()
	s.stall()
	resume := time.AfterFunc(time.Second, s.resume)
	defer resume.Stop()
	began := time.Now()
	var text strings.Builder
	for text.Len() < chunks*size {
		p, err := decodePartial(s.line())
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString(p.text())
	}
	took := time.Since(began)
	if err := checkChunks(text.String(), chunks, size); err != nil {
		t.Error(err)
	}
	if line := s.line(); !bytes.Contains(line, []byte(`"completed"`)) {
		t.Errorf("after the partials came %s", clipLine(line))
	}
	peak, known := peakRSS(s.pid)
	t.Logf("%d MB in %v, 1 s of it stalled; peak memory %d MiB", text.Len()/1e6,
		took.Round(time.Millisecond), peak>>20)
	if known && peak > mostPeak {
		t.Errorf("peak memory %d MiB, want at most %d", peak>>20, mostPeak>>20)
	}
	if rest, code, err := s.finish(); err != nil || code != 0 || len(rest) > 0 {
		t.Errorf("at the end: %d lines, exit code %d, %v", len(rest), code, err)
	}
}
