//go:build unix

package command

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"runnel/internal/processtest"
	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tools"
	"runnel/tools/config"
)

const watchdog = processtest.Watchdog

const childVar = processtest.ChildVar

func TestMain(m *testing.M) {
	syscall.Umask(0o022) // a state that the user's group may write is refused
	processtest.Main(m, children)
}

var children = map[string]func(args []string){
	// runnel is a program that runs one shell command as a tool, for a test that kills it.
	"runnel": func(args []string) {
		c, err := New("test", config.Command{Shell: args[0]}, config.Base{Vars: withoutChild(os.Environ())})
		if err != nil {
			panic(err)
		}
		log := partials.NewLog(nil)
		go func() {
			_, _ = c.Call(context.Background(), &tools.Call{},
				tools.NewOutput(context.Background(), log, nil))
		}()
		r := log.NewReader(0)
		for r.Wait(context.Background(), 1) == nil {
			b, _ := r.Next(1 << 20)
			for _, chunk := range b.Chunks() {
				_, _ = os.Stdout.Write(chunk.Data)
			}
		}
	},
	// impatient runs args[1] with an idleTimeout of args[0] until stdin ends, and says whether it runs still.
	"impatient": func(args []string) {
		idle, _ := time.ParseDuration(args[0])
		c, err := New("test", config.Command{Shell: args[1], IdleTimeout: config.Duration(idle)},
			config.Base{Vars: withoutChild(os.Environ())})
		if err != nil {
			panic(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		log, ended := partials.NewLog(nil), make(chan *mcp.CallToolResult, 1)
		go func() {
			r, _ := c.Call(ctx, &tools.Call{}, tools.NewOutput(ctx, log, nil))
			ended <- r
		}()
		_ = log.NewReader(0).Wait(ctx, 1)
		fmt.Println("begun")
		_, _ = io.ReadAll(os.Stdin)
		select {
		case r := <-ended:
			fmt.Printf("ended: %.200s\n", r.Content[0])
		default:
			fmt.Println("runs")
			cancel()
			<-ended
		}
	},
	// runnels starts args[0] as several tools at once, says when, and is killed then.
	"runnels": func(args []string) {
		c, err := New("test", config.Command{Shell: args[0]}, config.Base{Vars: withoutChild(os.Environ())})
		if err != nil {
			panic(err)
		}
		fmt.Println("now")
		for range 4 {
			go func() {
				_, _ = c.Call(context.Background(), &tools.Call{},
					tools.NewOutput(context.Background(), partials.NewLog(nil), nil))
			}()
		}
		time.Sleep(time.Hour)
	},
	// unguarded is a runnel that can open no file, and so have no guard. It says what becomes of a command.
	"unguarded": func([]string) {
		time.AfterFunc(time.Hour, func() {}) // the runtime cannot do without its poller, which is a file
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{}); err != nil {
			panic(err)
		}
		_, err := newVariablesFile(&tools.Call{})
		fmt.Println(err)
	},
	// escape leaves a grandchild in a session of its own, which holds stdout.
	"escape": func(args []string) {
		p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", args[0]}, &os.ProcAttr{
			Env:   os.Environ(),
			Files: []*os.File{nil, os.Stdout, os.Stderr},
			Sys:   &syscall.SysProcAttr{Setsid: true},
		})
		if err != nil {
			panic(err)
		}
		fmt.Println("escaped", p.Pid)
	},
	// flood writes args[0] lines of 64 bytes as fast as it can.
	"flood": func(args []string) {
		var n int
		_, _ = fmt.Sscan(args[0], &n)
		line := strings.Repeat("x", 63) + "\n"
		block := []byte(strings.Repeat(line, 1024))
		for ; n > 0; n -= 1024 {
			_, _ = os.Stdout.Write(block[:min(n, 1024)*64])
		}
	},
	// fetch gets a URL as programs in Go do, and says what came.
	"fetch": func(args []string) {
		http.DefaultTransport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
		r, err := http.Get(args[0])
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		_, _ = io.Copy(os.Stdout, r.Body)
	},
	// send sends a datagram.
	"send": func(args []string) {
		conn, err := net.Dial("udp", args[0])
		if err == nil {
			_, err = conn.Write([]byte("out"))
		}
		fmt.Println("sent", err)
	},
	// files lists what it has open.
	"files": func([]string) {
		for fd := range 256 {
			var s syscall.Stat_t
			if syscall.Fstat(fd, &s) == nil && !internalFile(fd) {
				fmt.Println(fd)
			}
		}
	},
}

// internalFile reports whether a descriptor belongs to Go's runtime: its poller, or the CPU limit that it
// watches.
func internalFile(fd int) bool {
	name, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	return strings.HasPrefix(name, "anon_inode:") || strings.HasPrefix(name, "/sys/fs/cgroup/")
}

func withoutChild(vars []string) []string {
	var kept []string
	for _, v := range vars {
		if !strings.HasPrefix(v, childVar+"=") {
			kept = append(kept, v)
		}
	}
	return kept
}

// child is a command that runs the test binary as one of the children.
func child(name string, args ...string) config.Command {
	return config.Command{Command: append([]string{os.Args[0]}, args...), Env: processtest.Env(name)}
}

// running is a call of a command in a test.
type running struct {
	t      *testing.T
	cancel context.CancelFunc
	in     *tools.Call
	reader *partials.Reader
	chunks []partials.Chunk // what has been read of the log
	done   chan struct{}

	result *mcp.CallToolResult // valid after done
	err    error
}

func mustCommand(t *testing.T, conf config.Command) *Command {
	t.Helper()
	c, err := New("test", conf, config.Base{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func start(t *testing.T, c *Command, args string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	log := partials.NewLog(nil)
	r := &running{t: t, cancel: cancel, in: &tools.Call{Arguments: json.RawMessage(args)},
		reader: log.NewReader(0), done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.result, r.err = c.Call(ctx, r.in, tools.NewOutput(ctx, log, nil))
		log.Close()
	}()
	t.Cleanup(func() {
		cancel()
		<-r.done
		r.reader.Close()
		noGoroutines(t)
	})
	return r
}

// noGoroutines waits until none of the goroutines of a command are left.
func noGoroutines(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(watchdog)
	buf := make([]byte, 1<<20)
	for {
		stacks := string(buf[:runtime.Stack(buf, true)])
		if !strings.Contains(stacks, "process.(*Child)") &&
			!strings.Contains(stacks, "command.(*textStream)") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("goroutines are left:\n%s", stacks)
		}
		runtime.Gosched()
	}
}

// waitFor reads the log until it holds text.
func (r *running) waitFor(text string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), watchdog)
	defer cancel()
	for !strings.Contains(r.text(), text) {
		if err := r.reader.Wait(ctx, 1); err != nil {
			r.t.Fatalf("waiting for %q: %v; the log holds %q", text, err, r.text())
		}
		r.read()
	}
}

func (r *running) read() {
	for {
		b, ok := r.reader.Next(1 << 20)
		if !ok {
			return
		}
		for _, c := range b.Chunks() {
			c.Data = bytes.Clone(c.Data)
			r.chunks = append(r.chunks, c)
		}
	}
}

// text is what has been read of the log.
func (r *running) text() string {
	var b strings.Builder
	for _, c := range r.chunks {
		b.Write(c.Data)
	}
	return b.String()
}

// end reads the log to its end and returns the result, and what its _meta says of the command.
func (r *running) end() (*mcp.CallToolResult, outcome) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), watchdog)
	defer cancel()
	for r.reader.Wait(ctx, 1) == nil {
		r.read()
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		r.t.Fatal("the call does not end")
	}
	if r.err != nil {
		r.t.Fatal(r.err)
	}
	var o outcome
	if command := r.result.Meta[mcp.MetaCommand]; command != nil {
		if err := json.Unmarshal(command.(json.RawMessage), &o); err != nil {
			r.t.Fatal(err)
		}
	}
	return r.result, o
}

func call(t *testing.T, c *Command, args string) (*mcp.CallToolResult, outcome, *running) {
	t.Helper()
	r := start(t, c, args)
	result, o := r.end()
	return result, o, r
}

func contentText(t *testing.T, c mcp.ContentBlock) string {
	t.Helper()
	var text mcp.TextContent
	if err := json.Unmarshal(c, &text); err != nil || text.Type != "text" {
		t.Fatalf("content %s is not text", c)
	}
	return text.Text
}

func openGate(t *testing.T, c *Command) {
	t.Helper()
	if err := os.WriteFile(c.config.Env["GATE"], []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
}
