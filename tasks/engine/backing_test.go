package engine

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// pad is a store that takes output, and says of each write what a test wants it to say.
type pad struct {
	Driver
	says []error // of the next writes
	read Record  // what is stored

	mu   sync.Mutex
	data int
}

func (p *pad) Append(_ context.Context, _ *Record, b *Batch) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.says) > 0 {
		var err error
		if err, p.says = p.says[0], p.says[1:]; err != nil {
			return err
		}
	}
	for i := range b.Extents {
		p.data += len(b.Extents[i].Data)
	}
	return nil
}

func (p *pad) Read(context.Context, string) (*Record, error) {
	r := p.read
	return &r, nil
}

func (p *pad) Output(string, func() int64) Output { return nil }

// keep makes a backing that no goroutine writes by itself.
func keep(t *testing.T, p *pad, pending int) *backing {
	s := New(nil, "nowhere", Options{})
	sp := &Space{process: s.process, Driver: p, live: map[string]*backing{}, fenced: map[string]struct{}{}}
	sp.ctx, sp.stop = context.WithCancel(t.Context())
	log := partials.NewLog(&partials.LogOptions{MaxPending: pending})
	task := tasks.Task{ID: "a", Status: mcp.TaskWorking, Log: log, Segments: partials.NewSegments(log)}
	k := sp.backing(&Record{Task: task, Stored: Stored{Keeper: s.Keeper}, Revision: 1})
	p.read = Record{Task: task, Stored: Stored{Keeper: s.Keeper, Writer: s.Keeper}, Revision: 1}
	log.Back(k)
	return k
}

// A tool that writes without a pause has its log cut, and does not keep others from its task.
func TestFlood(t *testing.T) {
	k := keep(t, &pad{}, 4<<20)
	k.log.SetLimit(1 << 20)
	data := []byte(strings.Repeat("a", 9_999) + "\n")
	for range 8 {
		for range 200 {
			if err := k.log.Append(t.Context(), partials.Chunk{Data: data}); err != nil {
				t.Fatal(err)
			}
		}
		size := k.written.end
		more, err := k.store(t.Context())
		if err != nil || !more || k.written.end-size > 1<<20 {
			t.Fatalf("%d bytes at once, more: %t, %v", k.written.end-size, more, err)
		}
		if k.kept() > 2<<20 {
			t.Fatalf("%d bytes are kept", k.kept())
		}
		if err := k.flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// Output that is refused is another keeper's only if the record says so: a server that leads since a moment
// ago may not know yet whose it is.
func TestRefusedThoughKeeper(t *testing.T) {
	p := &pad{says: []error{tasks.ErrFenced, tasks.ErrFenced, nil}}
	k := keep(t, p, 0)
	if err := k.log.Append(t.Context(), partials.Chunk{Data: []byte("line\n")}); err != nil {
		t.Fatal(err)
	}
	p.read.Revision = 2
	if _, err := k.store(t.Context()); !errors.Is(err, tasks.ErrBusy) || errors.Is(err, tasks.ErrFenced) {
		t.Errorf("refused twice: %v", err)
	}
	if _, err := k.store(t.Context()); err != nil || p.data != 5 || k.record.Revision != 2 {
		t.Errorf("%d bytes, revision %d, %v", p.data, k.record.Revision, err)
	}
	p.says, p.read.Stored.Writer = []error{tasks.ErrFenced}, "another"
	if err := k.log.Append(t.Context(), partials.Chunk{Data: []byte("more\n")}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.store(t.Context()); !errors.Is(err, tasks.ErrFenced) {
		t.Errorf("it is another one's: %v", err)
	}
}

// All output is stored before an end, also what came after some that no server had acknowledged.
func TestFlushAfterUnanswered(t *testing.T) {
	p := &pad{says: []error{Away{errors.New("an election")}, nil}}
	k := keep(t, p, 0)
	for _, line := range []string{"line\n", "more\n"} {
		if err := k.log.Append(t.Context(), partials.Chunk{Data: []byte(line)}); err != nil {
			t.Fatal(err)
		}
		if err := k.flush(t.Context()); line == "line\n" && !errors.Is(err, tasks.ErrBusy) ||
			line == "more\n" && err != nil {
			t.Errorf("%q: %v", line, err)
		}
	}
	if p.data != 10 || k.written.end != 10 {
		t.Errorf("%d bytes are stored, up to %d", p.data, k.written.end)
	}
}

// noting is a queue that counts what is made to wait, and what is shown.
type noting struct {
	Queue
	waits, shown int
}

func (n *noting) PutWaiting(context.Context, *Record, string) error { n.waits++; return nil }

func (n *noting) Show(context.Context, *Record) error { n.shown++; return nil }

// A task whose end was stored without an acknowledgement has ended: it is not offered to workers any more.
func TestEndedIsNotOffered(t *testing.T) {
	p := &pad{}
	k := keep(t, p, 0)
	queue := &noting{}
	k.sp.Queue = queue
	k.sp.live["a"] = k
	k.unsure = true
	p.read.Status = mcp.TaskCompleted
	err := k.sp.Offer(t.Context(), "a", tasks.Offer{Class: "builds"}, nil)
	if !errors.Is(err, tasks.ErrFenced) || queue.waits != 0 {
		t.Errorf("it waits again: %d, %v", queue.waits, err)
	}
}

// A state that does not answer is named in the log at the first failure, and each minute.
func TestDeadStateIsNamedEachMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		sp := &Space{process: &process{Options: Options{Log: zerolog.New(&log)}}}
		sp.ctx, sp.stop = context.WithCancel(t.Context())
		sp.all.Go(func() {
			sp.every(RenewInterval, func(context.Context) error { return errors.New("start it with -js") },
				"backing the lease")
		})
		time.Sleep(3 * time.Minute)
		sp.Stop()
		if n := strings.Count(log.String(), "start it with -js"); n != 3 {
			t.Errorf("named %d times in three minutes: %s", n, &log)
		}
	})
}
