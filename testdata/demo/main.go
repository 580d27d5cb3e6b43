// Demo is a small MCP client: it starts runnel with go test as a tool, calls it as a task, shows the
// output as it arrives, and compares it with the result.
//
//	go run ./testdata/demo bin/runnel [PACKAGES]
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// tool is the command. With -p 1 go test prints the tests of several packages as they run,
// not package by package; with -count=1 it runs them although they have passed before.
const tool = "test=go test -v -p 1 -count=1 {{packages}}"

// defaultPackages have enough output to watch, and are quick.
const defaultPackages = "./rpc/..."

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: demo RUNNEL [PACKAGES]")
		os.Exit(2)
	}
	packages := defaultPackages
	if len(os.Args) > 2 {
		packages = os.Args[2]
	}
	if err := demo(os.Args[1], packages); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func demo(program, packages string) error {
	server := exec.Command(program, "--tool", tool, "--log-level", "warn")
	server.Stderr = os.Stderr
	in, err := server.StdinPipe()
	if err != nil {
		return err
	}
	out, err := server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	c := &client{in: in, out: bufio.NewReader(out)}
	err = c.session(packages)
	_ = in.Close()
	return errors.Join(err, server.Wait())
}

// client speaks to the server, one message a line.
type client struct {
	in  io.Writer
	out *bufio.Reader
}

// message is what the client reads of a line.
type message struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params params          `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

type params struct {
	Status        string `json:"status"`
	StatusMessage string `json:"statusMessage"`
	Seq           int    `json:"seq"`
	Content       []item `json:"content"`
}

type item struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// result is that of the tool.
type result struct {
	Content           []item `json:"content"`
	StructuredContent struct {
		ExitCode    *int `json:"exitCode"`
		StdoutBytes int  `json:"stdoutBytes"`
		DurationMs  int  `json:"durationMs"`
		Truncated   bool `json:"truncated"`
	} `json:"structuredContent"`
}

func (c *client) send(line string) error {
	_, err := io.WriteString(c.in, line+"\n")
	return err
}

// next reads a line; one that answers with an error is an error.
func (c *client) next() (*message, error) {
	line, err := c.out.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("reading from the server: %w", err)
	}
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		return nil, err
	}
	if m.Error != nil {
		return nil, fmt.Errorf("the server answers %s", m.Error)
	}
	return &m, nil
}

func (c *client) session(packages string) error {
	err := c.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
		`"capabilities":{"tasks":{"streaming":{"partial":{}}}},"clientInfo":{"name":"demo","version":"1"}}}`)
	if err != nil {
		return err
	}
	if _, err := c.next(); err != nil {
		return err
	}
	if err := c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); err != nil {
		return err
	}

	name, _ := json.Marshal(packages)
	fmt.Printf("tools/call test {\"packages\": %s} as a task\n", name)
	called := time.Now()
	if err := c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"test","arguments":{"packages":%s},"task":{}}}`, name)); err != nil {
		return err
	}
	handle, err := c.next()
	if err != nil {
		return err
	}
	var created struct {
		Task struct {
			TaskID string `json:"taskId"`
		} `json:"task"`
	}
	if err := json.Unmarshal(handle.Result, &created); err != nil {
		return err
	}
	fmt.Printf("task %s, %d ms after the call\n\n", created.Task.TaskID, time.Since(called).Milliseconds())

	w := &watch{called: called}
	for w.status == "" {
		m, err := c.next()
		if err != nil {
			return err
		}
		w.take(m)
	}
	if err := c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":3,"method":"tasks/result","params":{"taskId":%q}}`, created.Task.TaskID)); err != nil {
		return err
	}
	answer, err := c.next()
	if err != nil {
		return err
	}
	var r result
	if err := json.Unmarshal(answer.Result, &r); err != nil {
		return err
	}
	return w.summarize(&r)
}

// watch follows the notifications of the task.
type watch struct {
	called   time.Time
	first    time.Duration
	partials int
	next     int // the seq that comes next
	gaps     int
	output   strings.Builder
	status   string // terminal
}

func (w *watch) take(m *message) {
	switch m.Method {
	case "notifications/tasks/partial":
		after := time.Since(w.called)
		if w.partials == 0 {
			w.first = after
		}
		if m.Params.Seq != w.next {
			w.gaps++
		}
		w.next = m.Params.Seq + 1
		w.partials++
		for _, c := range m.Params.Content {
			w.output.WriteString(c.Text)
			for line := range strings.Lines(c.Text) {
				fmt.Printf("%4d %6.2fs  %s\n", m.Params.Seq, after.Seconds(), strings.TrimRight(line, "\n"))
			}
		}
	case "notifications/tasks/status":
		switch m.Params.Status {
		case "completed", "failed", "cancelled":
			w.status = m.Params.Status
		}
	}
}

func (w *watch) summarize(r *result) error {
	code := "none"
	if r.StructuredContent.ExitCode != nil {
		code = fmt.Sprint(*r.StructuredContent.ExitCode)
	}
	text := ""
	if len(r.Content) > 0 {
		text = r.Content[0].Text
	}
	streamed := w.output.String()
	var problem error
	compared := fmt.Sprintf("%d bytes, the same as the result's text", len(streamed))
	switch {
	case r.StructuredContent.Truncated:
		compared = fmt.Sprintf("%d bytes of %d; the result shows head and tail", len(streamed), r.StructuredContent.StdoutBytes)
		if len(streamed) != r.StructuredContent.StdoutBytes {
			problem = errors.New("the partials are not the whole output")
		}
	case !strings.HasPrefix(text, streamed): // a command that fails may add a line
		compared = fmt.Sprintf("%d bytes, not those of the result", len(streamed))
		problem = errors.New("the partials differ from the result")
	}
	if w.gaps > 0 {
		problem = errors.Join(problem, errors.New("partials are missing"))
	}
	fmt.Printf("\n%d partials, gaps %d, first after %d ms; %s; exit code %s, task %s after %d ms\n",
		w.partials, w.gaps, w.first.Milliseconds(), compared, code, w.status, r.StructuredContent.DurationMs)
	return problem
}
