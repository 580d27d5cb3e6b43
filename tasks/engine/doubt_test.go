package engine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// shelf is a crowd whose server stores tasks by their ids, and answers after a while.
type shelf struct {
	crowd
	tasks  map[string]*Record
	insert error    // the answer to the next Insert
	take   error    // the answer to the next Take
	gone   []string // the ids of all Deletes, and the ends
	leave  int      // how many leases were given back
	lease  error
}

func (s *shelf) Open(context.Context, *Space) (Driver, Queue, error) { return s, nil, nil }

func (s *shelf) Lease(context.Context) error { return s.lease }

func (s *shelf) Leave(context.Context) { s.leave++ }

func (s *shelf) Insert(_ context.Context, r *Record) error {
	stored := *r
	s.tasks[r.ID] = &stored
	err := s.insert
	s.insert = nil
	return err
}

func (s *shelf) Delete(_ context.Context, id string) error {
	time.Sleep(time.Second)
	s.gone = append(s.gone, id)
	delete(s.tasks, id)
	return nil
}

func (s *shelf) End(_ context.Context, r *Record, _ []byte) error {
	s.gone = append(s.gone, "end of "+r.ID+" by "+r.Stored.Writer)
	return nil
}

func (s *shelf) Measure(context.Context, *Record) error { return nil }

func (s *shelf) Output(string, func() int64) Output { return nil }

func (s *shelf) Read(_ context.Context, id string) (*Record, error) {
	if r := s.tasks[id]; r != nil {
		found := *r
		return &found, nil
	}
	return nil, tasks.ErrNotFound
}

func (s *shelf) Take(context.Context, *Record, string) error { return s.take }

// task is a task that works.
func task(id string) tasks.Task {
	log := partials.NewLog(nil)
	return tasks.Task{ID: id, Owner: "local", Status: mcp.TaskWorking, TTL: time.Hour, CreatedAt: time.Now(),
		Log: log, Segments: partials.NewSegments(log)}
}

// hidden is a task without a handle.
func hidden(id string) tasks.Task {
	t := task(id)
	t.Hidden = true
	return t
}

// A task that was refused without an answer and is put again stays, though a sweep is just deleting what may
// be stored of the first try.
func TestPutAgainWhileCleared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &shelf{tasks: map[string]*Record{}, insert: Away{errors.New("no answer")}}
		s := New(server, "nowhere", Options{})
		if err := s.Open("local").Put(t.Context(), hidden("a")); !errors.Is(err, tasks.ErrBusy) {
			t.Fatal(err)
		}
		sp := s.Space("local")
		if err := sp.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		swept := make(chan error)
		go func() { swept <- sp.Sweep(t.Context()) }()
		synctest.Wait() // it deletes
		if err := s.Open("local").Put(t.Context(), task("a")); err != nil {
			t.Fatal(err)
		}
		if err := <-swept; err != nil {
			t.Fatal(err)
		}
		if server.tasks["a"] == nil {
			t.Error("a task is deleted that was put")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A task that no client has seen has no files, and a task that keeps files has none itself: no Delete is sent
// for them.
func TestDeleteOfFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &shelf{tasks: map[string]*Record{}}
		s := New(server, "nowhere", Options{})
		if err := s.Open("local").Put(t.Context(), hidden("hidden")); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"seen", tasks.FilesID("seen")} {
			if err := s.Open("local").Put(t.Context(), task(id)); err != nil {
				t.Fatal(err)
			}
		}
		for _, id := range []string{"hidden", tasks.FilesID("seen"), "seen"} {
			if err := s.Open("local").Delete(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := strings.Join(server.gone, " "), "hidden seen-files seen seen-files"; got != want {
			t.Errorf("deleted: %s, want %s", got, want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Files that another process may still write are ended before they are deleted for the next attempt: servers
// of NATS store behind a deletion what was on its way to them.
func TestFilesOfOthersEndFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &shelf{tasks: map[string]*Record{}}
		s := New(server, "nowhere", Options{})
		id := tasks.FilesID("a")
		for range 2 {
			server.gone = nil
			server.tasks[id] = &Record{Task: task(id), Stored: Stored{Keeper: "other", Writer: "other"}}
			if err := s.Open("local").Delete(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			if got, want := strings.Join(server.gone, ", "), "end of a-files by "+s.Keeper+", a-files"; got != want {
				t.Errorf("%s; want %s", got, want)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A worker forgets the tasks that others were faster to take. It remembers those of which it does not know
// whose they are.
func TestTakenByOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &shelf{tasks: map[string]*Record{}}
		s := New(server, "nowhere", Options{})
		sp := s.Space("local")
		if err := sp.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"theirs", "unknown"} {
			r := &Record{Task: task(id), Stored: Stored{Keeper: "front"}}
			server.tasks[id], server.take = r, tasks.ErrFenced
			if id == "theirs" {
				sp.Driver = &faster{server, r}
			} else {
				sp.Driver = server
			}
			if _, err := s.Space("local").Take(t.Context(), task(id), []byte(`{}`)); !errors.Is(err, tasks.ErrFenced) {
				t.Errorf("%s: %v", id, err)
			}
		}
		if _, known := sp.unanswered["unknown"]; !known || len(sp.unanswered) != 1 {
			t.Errorf("remembered: %v", sp.unanswered)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// faster is a shelf whose task another worker takes just before this one does.
type faster struct {
	*shelf
	r *Record
}

func (f *faster) Take(ctx context.Context, r *Record, before string) error {
	f.r.Stored.Keeper = "another"
	return f.shelf.Take(ctx, r, before)
}

// A space that cannot be opened because there is no lease leaves nothing at the server, however often it is
// tried.
func TestLeavesWithoutLease(t *testing.T) {
	server := &shelf{lease: errors.New("the state is full")}
	s := New(server, "nowhere", Options{})
	if err := s.Space("local").Ready(t.Context()); err == nil {
		t.Fatal("it is open without a lease")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if server.leave != 1 {
		t.Errorf("left %d times", server.leave)
	}
}

// A class of workers that nobody can have written does not get into what is said of its task.
func TestPoisonedOffer(t *testing.T) {
	for _, class := range []string{"", "a\nb", strings.Repeat("a", 1000)} {
		r := &Record{Stored: Stored{Status: mcp.TaskWorking, TTL: int64(time.Hour), Keeper: QueueKeeper,
			Offer: &waiting{Class: class}}}
		if r.Check(nil, false); r.Damage == nil || r.Waits() || strings.Contains(r.StatusMessage, "\n") {
			t.Errorf("%.10q: %v, %q", class, r.Damage, r.StatusMessage)
		}
	}
}

// cancelled is a shelf whose left task another process takes just before a cancel ends it.
type cancelled struct {
	shelf
	asked []string // the keepers that were asked
}

func (c *cancelled) Open(context.Context, *Space) (Driver, Queue, error) { return c, nil, nil }

func (c *cancelled) Alive(context.Context) ([]string, error) { return []string{"another"}, nil }

func (c *cancelled) Measure(context.Context, *Record) error { return nil }

func (c *cancelled) End(_ context.Context, r *Record, _ []byte) error {
	c.tasks[r.ID].Stored.Keeper = "another"
	return tasks.ErrFenced
}

func (c *cancelled) Ask(_ context.Context, r *Record) error {
	c.asked = append(c.asked, r.Stored.Keeper)
	return nil
}

// A cancel that comes while another process takes a left task reaches that process.
func TestCancelMeetsTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &cancelled{shelf: shelf{tasks: map[string]*Record{}}}
		s := New(server, "nowhere", Options{})
		for _, id := range []string{"a", "b"} {
			r := &Record{Task: task(id), Stored: Stored{Keeper: "before"}}
			r.Variables = []byte(`{"` + tasks.ResumeNote + `": "tool"}`)
			server.tasks[id] = r
			if err := s.Space("local").Ask(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		if len(server.asked) != 2 || server.asked[0] != "another" || server.asked[1] != "another" {
			t.Errorf("asked: %q", server.asked)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A task that was to wait for a worker and is not acknowledged is refused: no worker is shown it, and what may
// be stored of it is deleted. Another try makes it wait.
func TestOfferedTaskIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &shelf{tasks: map[string]*Record{}, insert: Away{errors.New("no answer")}}
		queue := &noting{}
		s := New(server, "nowhere", Options{})
		sp := s.Space("local")
		if err := sp.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		sp.Queue = queue
		offer := tasks.Offer{Class: "builds", Timeout: time.Hour, Attached: true}
		if err := sp.PutOffered(t.Context(), task("a"), offer, []byte("{}")); !errors.Is(err, tasks.ErrBusy) {
			t.Fatal(err)
		}
		if err := sp.undo(t.Context()); err != nil || server.tasks["a"] != nil || queue.shown != 0 {
			t.Fatalf("%v, stored: %+v, shown %d times", err, server.tasks["a"], queue.shown)
		}
		for _, id := range []string{"a", "b"} {
			if err := sp.PutOffered(t.Context(), task(id), offer, []byte("{}")); err != nil {
				t.Fatal(err)
			}
			if r := server.tasks[id]; r == nil || !r.Waits() || r.front() != sp.Keeper || sp.kept(id) != nil {
				t.Errorf("%s is stored as %+v", id, r)
			}
		}
		if queue.shown != 2 {
			t.Errorf("workers are shown %d tasks", queue.shown)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
