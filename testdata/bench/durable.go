package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Tasks that live on disk, and what they cost: the state is a new directory in each measurement. The other
// rows keep it in memory.
func init() {
	measurements = append(measurements,
		measurement{"durable: echo as tasks", "runnel", durableEcho},
		measurement{"durable: notifications", "", durableNotifications},
		measurement{"durable: 1,000 tasks", "runnel", durableThousand},
		measurement{"durable: growth of the store", "runnel", growth},
		measurement{"durable: growth of a log", "runnel", logGrowth},
	)
}

// onDisk is the server with a state of its own, if it has one.
func onDisk(dir string, s server) (server, func(), error) {
	if !s.task {
		return s, func() {}, nil
	}
	state, err := os.MkdirTemp(dir, "state")
	if err != nil {
		return s, nil, err
	}
	s.argv = append(s.argv[:len(s.argv):len(s.argv)], "--state", filepath.Join(state, "runnel"))
	return s, func() { _ = os.RemoveAll(state) }, nil
}

const echoTask = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"},"task":{}}}` + "\n"

// tasks runs echo as a task until enough says so, 64 at a time: as many as have ended are started again. Each
// ended task is a line with its terminal status.
func (c *session) tasks(enough func(ended int) bool) error {
	id, done := 1, 0
	start := func(n int) error {
		var b []byte
		for range n {
			id++
			b = fmt.Appendf(b, echoTask, id)
		}
		_, err := c.in.Write(b)
		return err
	}
	if err := start(inFlight); err != nil {
		return err
	}
	live := inFlight
	stop := false
	for live > 0 {
		b, err := c.read()
		if err != nil {
			return err
		}
		// A name that a read cuts in two is not counted.
		n := bytes.Count(b, []byte(`"method":"notifications/tasks/status"`))
		live -= n
		done += n
		if stop = stop || enough(done); !stop && n > 0 {
			live += n
			if err := start(n); err != nil {
				return err
			}
		}
		if stop {
			break
		}
	}
	c.settle()
	return c.out.SetReadDeadline(time.Now().Add(watchdog))
}

func durableEcho(dir string, s server) ([]value, error) {
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
	var began time.Time
	var cpu float64
	first, last := 0, 0
	err = c.tasks(func(ended int) bool {
		if began.IsZero() && ended > 1000 {
			began = time.Now()
			cpu = c.cpu()
			first = ended
		}
		last = ended
		return !began.IsZero() && time.Since(began) > echoTime
	})
	n := float64(last - first)
	return []value{
		{"durable: echo as tasks, 64 in flight", n / time.Since(began).Seconds(), "/s"},
		{"durable: echo as tasks, 64 in flight, CPU each", (c.cpu() - cpu) / n, "ns"},
	}, err
}

func durableNotifications(dir string, s server) ([]value, error) {
	if !s.task && s.name != "floor" {
		return nil, errCannot // keeps nothing
	}
	s, remove, err := onDisk(dir, s)
	if err != nil {
		return nil, err
	}
	defer remove()
	values, err := notifications(dir, s)
	return renamed(values), err
}

func durableThousand(dir string, s server) ([]value, error) {
	s, remove, err := onDisk(dir, s)
	if err != nil {
		return nil, err
	}
	defer remove()
	values, err := thousand(dir, s)
	return renamed(values), err
}

func renamed(values []value) []value {
	for i := range values {
		values[i].row = "durable: " + values[i].row
	}
	return values
}

// growth measures requests about tasks when few are stored, and when many are.
func growth(dir string, s server) ([]value, error) {
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
	stored := 0
	var values []value
	for _, many := range []int{100, 100_000} {
		began := time.Now()
		if err := c.tasks(func(ended int) bool { return stored+ended >= many }); err != nil {
			return nil, err
		}
		took := time.Since(began)
		got, listed, err := c.ask()
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("durable: %d tasks stored: ", many)
		if many > 1000 {
			values = append(values, value{name + "each, started and ended",
				float64(took.Nanoseconds()) / float64(many-stored), "ns"})
		}
		values = append(values, value{name + "tasks/get", got, "ns"},
			value{name + "tasks/list, a page", listed, "ns"})
		stored = many
	}
	return values, nil
}

// ask gets tasks and lists them, and returns the medians.
func (c *session) ask() (get, list float64, err error) {
	const often = 300
	var gets, lists []time.Duration
	var id []byte
	for i := range often {
		began := time.Now()
		c.send(`{"jsonrpc":"2.0","id":%d,"method":"tasks/list"}`, 1_000_000+i)
		line, err := c.line()
		if err != nil {
			return 0, 0, err
		}
		lists = append(lists, time.Since(began))
		if at := bytes.Index(line, []byte(`"taskId":"`)); at >= 0 {
			id = append(id[:0], line[at+10:at+46]...)
		} else {
			return 0, 0, fmt.Errorf("tasks/list: %.200s", line)
		}
		began = time.Now()
		c.send(`{"jsonrpc":"2.0","id":%d,"method":"tasks/get","params":{"taskId":"%s"}}`, 2_000_000+i, id)
		if _, err := c.line(); err != nil {
			return 0, 0, err
		}
		gets = append(gets, time.Since(began))
	}
	return quantile(gets, 50), quantile(lists, 50), nil
}

// logGrowth streams a log of 50 MB and one of 1 GB, and compares what a chunk costs from its writing to its
// reading.
func logGrowth(dir string, s server) (values []value, err error) {
	const short, long = 1_000_000, 20_000_000 // chunks of 50 bytes
	for _, log := range []struct {
		name   string
		chunks int
	}{{"50 MB", short}, {"1 GB", long}} {
		one := func() error {
			s, remove, err := onDisk(dir, s)
			if err != nil {
				return err
			}
			defer remove()
			c, err := open(s, "--pace", "50ms")
			if err != nil {
				return err
			}
			defer c.end()
			cpu, began := c.cpu(), time.Now()
			c.stream(1, log.chunks, 0)
			if _, err := c.untilEnded(); err != nil {
				return err
			}
			n := float64(log.chunks)
			values = append(values, value{"durable: a chunk of a log of " + log.name,
				float64(time.Since(began).Nanoseconds()) / n, "ns"},
				value{"durable: a chunk of a log of " + log.name + ", CPU", (c.cpu() - cpu) / n, "ns"})
			return nil
		}
		if err := one(); err != nil {
			return nil, err
		}
	}
	return values, nil
}
