//go:build unix

package natstest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Cluster is some nodes that run until the end of the test. Only the goroutine of the test drives it.
type Cluster struct {
	t     testing.TB
	env   []string
	nodes []*node

	nc *nats.Conn
	js jetstream.JetStream
}

type node struct {
	name string
	port int
	args []string
	cmd  *exec.Cmd // nil while it is dead
	log  syncBuffer
}

const (
	// patience is how long a cluster may take to become whole: with the race detector, beside other tests,
	// everything is slow.
	patience = 5 * time.Minute
	look     = 50 * time.Millisecond
)

// Start runs a cluster of n nodes, 1 or 3, whose processes have the environment env.
func Start(t testing.TB, n int, env []string) *Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes a server: make race runs it")
	}
	c := &Cluster{t: t, env: env}
	ports := freePorts(t, 2*n)
	var routes []string
	for _, port := range ports[n:] {
		routes = append(routes, fmt.Sprint("nats://127.0.0.1:", port))
	}
	for i := range n {
		o := &node{name: fmt.Sprint("node", i), port: ports[i]}
		o.args = []string{"-name", o.name, "-dir", t.TempDir(), "-port", fmt.Sprint(o.port)}
		if n > 1 {
			o.args = append(o.args, "-route", fmt.Sprint(ports[n+i]), "-routes", strings.Join(routes, ","))
		}
		c.nodes = append(c.nodes, o)
	}
	t.Cleanup(c.end)
	for i := range c.nodes {
		c.Restart(i)
	}
	c.eventually("the cluster answers", func() (err error) {
		c.nc, err = nats.Connect(c.URL(), nats.MaxReconnects(-1), nats.PingInterval(time.Second),
			nats.ReconnectWait(look))
		return err
	})
	var err error
	if c.js, err = jetstream.New(c.nc); err != nil {
		t.Fatal(err)
	}
	// The leader may not know yet what room the others have.
	c.eventually("a stream can be placed", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := c.js.CreateStream(ctx, jetstream.StreamConfig{Name: "ready", Replicas: n})
		if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return err
		}
		return c.js.DeleteStream(ctx, "ready")
	})
	return c
}

func freePorts(t testing.TB, n int) []int {
	t.Helper()
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports
}

// URL returns the URL of all nodes, for --state.
func (c *Cluster) URL() string {
	var hosts []string
	for _, n := range c.nodes {
		hosts = append(hosts, fmt.Sprintf("127.0.0.1:%d", n.port))
	}
	return "nats://" + strings.Join(hosts, ",")
}

// Node returns the number of the node that a client is connected to.
func (c *Cluster) Node(url string) int {
	return slices.IndexFunc(c.nodes,
		func(n *node) bool { return strings.HasSuffix(url, fmt.Sprint(":", n.port)) })
}

// Restart starts a dead node on its disk.
func (c *Cluster) Restart(i int) {
	c.t.Helper()
	n := c.nodes[i]
	file, err := program()
	if err != nil {
		c.t.Fatal(err)
	}
	n.cmd = exec.Command(file, n.args...)
	n.cmd.Env = c.env
	n.cmd.Stderr = &n.log
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if _, err := n.cmd.StdinPipe(); err != nil {
		c.t.Fatal(err)
	}
	if err := n.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
}

// Kill ends a node without warning.
func (c *Cluster) Kill(i int) {
	n := c.nodes[i]
	_ = n.cmd.Process.Kill()
	_ = n.cmd.Wait()
	n.cmd = nil
}

// Pause stops a node: it neither reads nor answers.
func (c *Cluster) Pause(i int) { c.signal(i, syscall.SIGSTOP) }

// Resume ends a Pause.
func (c *Cluster) Resume(i int) { c.signal(i, syscall.SIGCONT) }

func (c *Cluster) signal(i int, s syscall.Signal) {
	c.t.Helper()
	n := c.nodes[i]
	if err := syscall.Kill(-n.cmd.Process.Pid, s); err != nil {
		c.t.Errorf("%v of %s: %v", s, n.name, err)
	}
}

// Leader returns the number of the node that leads a stream.
func (c *Cluster) Leader(stream string) (leader int) { return c.Elected(stream, -1) }

// Elected waits until a node other than before leads a stream.
func (c *Cluster) Elected(stream string, before int) (leader int) {
	c.t.Helper()
	c.eventually("a leader of "+stream, func() error {
		info, err := c.info(stream)
		if err != nil {
			return err
		}
		leader = slices.IndexFunc(c.nodes,
			func(n *node) bool { return info.Cluster != nil && n.name == info.Cluster.Leader })
		if leader < 0 || leader == before {
			return errors.New("there is none")
		}
		return nil
	})
	return leader
}

func (c *Cluster) info(stream string) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
	defer cancel()
	s, err := c.js.Stream(ctx, stream)
	if err != nil {
		return nil, err
	}
	return s.CachedInfo(), nil
}

// Whole waits until every node has all of every stream: then any of them may fail next.
func (c *Cluster) Whole() {
	c.t.Helper()
	c.eventually("every node has everything", func() error {
		ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
		defer cancel()
		list := c.js.StreamNames(ctx)
		for name := range list.Name() {
			info, err := c.info(name)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if info.Cluster == nil || info.Cluster.Leader == "" ||
				len(info.Cluster.Replicas) != info.Config.Replicas-1 {
				return fmt.Errorf("%s: %+v", name, info.Cluster)
			}
			for _, r := range info.Cluster.Replicas {
				if !r.Current || r.Offline {
					return fmt.Errorf("%s: %+v", name, *r)
				}
			}
		}
		return list.Err()
	})
}

// Clear deletes the streams whose names begin with a prefix, as far as it can. Any goroutine may call it.
func (c *Cluster) Clear(prefix string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for name := range c.js.StreamNames(ctx).Name() {
		if strings.HasPrefix(name, prefix) {
			_ = c.js.DeleteStream(ctx, name)
		}
	}
}

// eventually tries until it succeeds.
func (c *Cluster) eventually(what string, try func() error) {
	c.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(look) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			for _, n := range c.nodes {
				c.t.Logf("%s: %s", n.name, &n.log)
			}
			c.t.Fatalf("%s: %v", what, err)
		}
	}
}

func (c *Cluster) end() {
	if c.nc != nil {
		c.nc.Close()
	}
	for i, n := range c.nodes {
		if n.cmd != nil {
			c.Kill(i)
		}
	}
}

// syncBuffer holds the output of a process.
type syncBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
