package dynamodb

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/rs/zerolog"

	"runnel/internal/dynatest"
	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/engine"
	"runnel/tasks/statetest"
)

func TestMain(m *testing.M) {
	for _, pair := range dynatest.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		_ = os.Setenv(name, value)
	}
	os.Exit(m.Run())
}

func newState(t testing.TB, s *dynatest.Server, change ...func(*Options)) *State {
	t.Helper()
	o := Options{Table: dynatest.Table, Region: "test", Endpoint: s.Endpoint}
	o.Log = zerolog.New(zerolog.NewTestWriter(t))
	for _, c := range change {
		c(&o)
	}
	state := New(o)
	t.Cleanup(func() { _ = state.Close() })
	return state
}

// prefixOf is a prefix of a test's own.
func prefixOf(t *testing.T) string {
	name := strings.Map(func(r rune) rune {
		if engine.IsToken(string(r)) {
			return r
		}
		return '_'
	}, t.Name())
	return name[max(0, len(name)-64):]
}

func TestState(t *testing.T) {
	t.Parallel()
	s := dynatest.Start(t)
	statetest.Run(t, func(t *testing.T) tasks.State {
		return newState(t, s, func(o *Options) { o.Prefix = prefixOf(t) })
	})
}

func TestShared(t *testing.T) {
	t.Parallel()
	s := dynatest.Start(t)
	statetest.RunShared(t, func(t *testing.T) (here, there tasks.State) {
		prefix := func(o *Options) { o.Prefix = prefixOf(t) }
		return newState(t, s, prefix), newState(t, s, prefix)
	})
}

func TestLimits(t *testing.T) {
	t.Parallel()
	s := dynatest.Start(t)
	statetest.RunLimits(t, func(t *testing.T, limits tasks.Limits) (here, there tasks.State) {
		limit := func(o *Options) { o.Prefix, o.Limits = prefixOf(t), limits }
		return newState(t, s, limit), newState(t, s, limit)
	})
}

// spaceOf is a state's space of an owner.
func spaceOf(t testing.TB, s *State, owner string) *space {
	t.Helper()
	sp := s.Space(owner)
	if err := sp.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return sp.Driver.(*space)
}

// itemAt is what stands at a place of the owner of the tests' tasks, nil if nothing does.
func itemAt(t testing.TB, s *dynatest.Server, partition, place string) item {
	t.Helper()
	answer, err := s.Client.GetItem(t.Context(),
		&dynamodb.GetItemInput{TableName: aws.String(dynatest.Table), Key: keyAt(partition, place),
			ConsistentRead: aws.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Item
}

func keyAt(partition, place string) item {
	return item{"pk": text("runnel:local:" + partition), "sk": text(place)}
}

// set writes attributes of an item, as a client written by hand does; nil takes one away.
func set(t testing.TB, s *dynatest.Server, partition, place string, attributes item) {
	t.Helper()
	i := with(with(keyAt(partition, place), itemAt(t, s, partition, place)), attributes)
	for name, value := range i {
		if value == nil {
			delete(i, name)
		}
	}
	if _, err := s.Client.PutItem(t.Context(),
		&dynamodb.PutItemInput{TableName: aws.String(dynatest.Table), Item: i}); err != nil {
		t.Fatal(err)
	}
}

// keys are the keys of all that stands in the table, with a word in them.
func keys(t testing.TB, s *dynatest.Server, word string) (all []string) {
	t.Helper()
	list, err := s.Client.Scan(t.Context(),
		&dynamodb.ScanInput{TableName: aws.String(dynatest.Table), ConsistentRead: aws.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range list.Items {
		if key := textOf(i, "pk") + " " + textOf(i, "sk"); strings.Contains(key, word) {
			all = append(all, key)
		}
	}
	return all
}

// at lets a state take the time from a clock.
func at(clock *statetest.Clock) func(*Options) { return func(o *Options) { o.Now = clock.Now } }

// sweep lets a state look for processes that are gone for so long, as often as it does.
func sweep(t testing.TB, s *State, clock *statetest.Clock, long time.Duration) {
	t.Helper()
	sp := s.Space("local")
	if err := sp.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	for ; ; long -= 5 * time.Second {
		if err := sp.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if long <= 0 {
			return
		}
		clock.Add(5 * time.Second)
	}
}

// stop lets a process do nothing by itself any more, as one that was paused.
func stop(t testing.TB, s *State) {
	t.Helper()
	spaceOf(t, s, "local").of.Stop()
}

// The tasks of a process that has vanished fail with what they had written, and it is refused when it comes
// back.
func TestVanished(t *testing.T) {
	t.Parallel()
	s := dynatest.Start(t)
	var clock statetest.Clock
	dead, other := newState(t, s), newState(t, s, at(&clock))
	task := statetest.Working("a", "line\n")
	statetest.Put(t, dead, task)
	statetest.Eventually(t, func() bool { return statetest.Get(t, other, "a").Log.Size() == 5 })
	if err := statetest.Hide(dead, statetest.Working("hidden")); err != nil {
		t.Fatal(err)
	}
	stop(t, dead)
	stop(t, other) // it sweeps when it is told
	sweep(t, other, &clock, 10*time.Second)
	if got := statetest.Get(t, other, "a"); got.Status != mcp.TaskWorking {
		t.Errorf("after ten seconds: %s %s", got.Status, got.StatusMessage)
	}
	sweep(t, other, &clock, 15*time.Second)
	got := statetest.Get(t, other, "a")
	if got.Status != mcp.TaskFailed || !strings.Contains(got.StatusMessage, "gone") ||
		statetest.ReadAll(t, got.Log) != "line\n" {
		t.Errorf("%+v", got)
	}
	if err := dead.Open(tasks.DefaultOwner).Put(t.Context(), statetest.Ended(task, mcp.TaskCompleted, "done")); !errors.Is(err,
		tasks.ErrFenced) {
		t.Errorf("the dead came back: %v", err)
	}
	if got := statetest.Get(t, other, "a"); got.Status != mcp.TaskFailed {
		t.Errorf("the dead changed it: %+v", got)
	}
	if left := append(keys(t, s, "local:live"), keys(t, s, "task:hidden")...); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// A process that has slept, or could not reach the table, takes nobody for dead whom it has not watched
// since.
func TestSlept(t *testing.T) {
	t.Parallel()
	s := dynatest.Start(t)
	var clock statetest.Clock
	here, there := newState(t, s), newState(t, s, at(&clock))
	statetest.Put(t, here, statetest.Working("a"))
	stop(t, here)
	statetest.Get(t, there, "a")
	stop(t, there)
	sweep(t, there, &clock, 5*time.Second)
	clock.Add(time.Hour)
	sweep(t, there, &clock, 10*time.Second)
	if got := statetest.Get(t, there, "a"); got.Status != mcp.TaskWorking {
		t.Errorf("%s %s", got.Status, got.StatusMessage)
	}
}

// A process whose lease was not renewed for long finds what others have ended since, and nothing else.
func TestLapsed(t *testing.T) {
	t.Parallel()
	s := dynatest.Start(t)
	var clock, late statetest.Clock
	here, there := newState(t, s, at(&late)), newState(t, s, at(&clock))
	statetest.Put(t, here, statetest.Working("a"))
	stop(t, here)
	statetest.Get(t, there, "a")
	stop(t, there)
	sweep(t, there, &clock, 25*time.Second)
	statetest.Put(t, here, statetest.Working("b"))
	late.Add(engine.LeaseTTL)
	if err := spaceOf(t, here, "local").of.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, fenced, err := statetest.Shared(here).Heed(t.Context()); err != nil || !slices.Equal(fenced, []string{"a"}) {
		t.Errorf("%v, %v", fenced, err)
	}
}

// A process that has renewed its lease between the look and the end keeps its tasks.
func TestLeaseCameBack(t *testing.T) {
	t.Parallel()
	s := dynatest.Start(t)
	here, there := newState(t, s), newState(t, s)
	task := statetest.Working("a")
	statetest.Put(t, here, task)
	stop(t, here)
	sp, other := spaceOf(t, here, "local"), spaceOf(t, there, "local")
	r, err := other.Read(t.Context(), "a")
	if err == nil {
		_, err = other.Alive(t.Context())
	}
	if err == nil {
		err = sp.Lease(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := other.End(t.Context(), r, []byte("{}")); !errors.Is(err, tasks.ErrFenced) {
		t.Errorf("ended by another one: %v", err)
	}
	statetest.Put(t, here, statetest.Ended(task, mcp.TaskCompleted, "done"))
	if got := statetest.Get(t, there, "a"); got.Status != mcp.TaskCompleted {
		t.Errorf("%s %s", got.Status, got.StatusMessage)
	}
}

// While the server is away output waits, and nothing is lost or stored twice when it comes back.
func TestServerComesBack(t *testing.T) {
	t.Parallel()
	s := dynatest.StartOnDisk(t)
	statetest.ServerComesBack(t, newState(t, s), func() { s.Kill(t) }, func() { s.Begin(t) },
		func() tasks.State { return newState(t, s) })
}

// A table that was restored from a backup is not taken for one that has it all, nor is an empty one.
func TestTableForgets(t *testing.T) {
	t.Parallel()
	s := dynatest.Start(t)
	state := newState(t, s)
	task := statetest.Working("a", "line\n")
	statetest.Put(t, state, task)
	statetest.Eventually(t, func() bool { return statetest.Get(t, state, "a").Log.Size() == 5 })
	set(t, s, "task:a", "record", item{"end": number(0)})
	if err := task.Log.Append(t.Context(), partials.Chunk{Data: []byte("more\n")}); err != nil {
		t.Fatal(err)
	}
	statetest.Eventually(t, func() bool { return task.Log.Failed() != nil })
	if err := task.Log.Failed(); !strings.Contains(err.Error(), "has lost output") {
		t.Error(err)
	}
	if err := state.Open(tasks.DefaultOwner).Put(t.Context(), statetest.Ended(task, mcp.TaskCompleted, "done")); !errors.Is(err,
		partials.ErrLost) {
		t.Errorf("completed: %v", err)
	}
	s.DeleteTable(t)
	if err := state.Open(tasks.DefaultOwner).Put(t.Context(), statetest.Working("b")); !errors.Is(err, tasks.ErrRemoved) ||
		!strings.Contains(err.Error(), "there is no table runnel") {
		t.Errorf("without the table: %v", err)
	}
	s.CreateTable(t)
	if err := spaceOf(t, state, "local").Lease(t.Context()); !errors.Is(err, tasks.ErrRemoved) {
		t.Errorf("in an empty table: %v", err)
	}
	if err := state.Open(tasks.DefaultOwner).Put(t.Context(), statetest.Working("c")); !errors.Is(err, tasks.ErrRemoved) {
		t.Errorf("a task in an empty table: %v", err)
	}
}

// A long log keeps its head and its tail, and the rest is not kept in the table.
func TestLongLog(t *testing.T) {
	t.Parallel()
	state := newState(t, dynatest.Start(t))
	id, kept := statetest.LongLog(t, state)
	stored, err := spaceOf(t, state, "local").
		query(t.Context(), span{partition: ofTask(id), from: "output:", to: "output:~"})
	bytes := 0
	for _, i := range stored {
		bytes += len(dataOf(i, "data"))
	}
	if err != nil || bytes != kept {
		t.Errorf("%d bytes are stored, %v", bytes, err)
	}
}

// Chunks, numbers and results that are longer than an item may be are stored in pieces.
func TestPieces(t *testing.T) {
	t.Parallel()
	s := dynatest.Start(t)
	state, other := newState(t, s), newState(t, s)
	task := statetest.Working("a")
	task.Merge = true
	statetest.Put(t, state, task)
	long := `"` + strings.Repeat("0123456789", 90_000) + `"` // an item of output is not cut
	want := ""
	for range 8 {
		if err := task.Log.Append(t.Context(), partials.Chunk{Kind: partials.Item, Data: []byte(long)},
			partials.Chunk{Data: []byte("short\n")}); err != nil {
			t.Fatal(err)
		}
		want += long + "short\n"
	}
	for range 600_000 {
		if err := task.Log.Append(t.Context(), partials.Chunk{Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	want += strings.Repeat("x", 600_000)
	statetest.Put(t, state, statetest.Ended(task, mcp.TaskCompleted, long))
	got := statetest.Get(t, other, "a")
	if read := statetest.ReadAll(t, got.Log); read != want || got.Outcome.Result == nil {
		t.Errorf("%d bytes of %d, %+v", len(read), len(want), got.Outcome)
	}
	if given, stored := task.Segments.Given(0, 1<<30), got.Segments.Given(0, 1<<30); len(given) == 0 ||
		!slices.Equal(given, stored) {
		t.Errorf("%d numbers were given, %d stored", len(given), len(stored))
	}
}

// People name a task by the beginning of its id: of those that can be seen.
func TestFind(t *testing.T) {
	t.Parallel()
	s := dynatest.Start(t)
	state, calls := newState(t, s), newState(t, s, func(o *Options) { o.Calls = true })
	statetest.Find(t, state, calls)
	statetest.Put(t, state, statetest.Working("ab4")) // it gets a handle, and comes last
	if got := statetest.IDs(t, calls, 10); !slices.Equal(got, []string{"ab3", "ab1", "b", "ab4"}) {
		t.Errorf("%v", got)
	}
	if places := keys(t, s, "local:tasks"); len(places) != 5 {
		t.Errorf("%q", places)
	}
}

// Tasks whose results were fetched are forgotten, the rest only by force; nothing of them stays in the table.
func TestForget(t *testing.T) {
	t.Parallel()
	s := dynatest.Start(t)
	statetest.Forget(t, newState(t, s))
	for _, id := range []string{"a", "b", "c"} {
		if left := keys(t, s, "task:"+id); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	}
}

// All that is stored of a task expires together, so that the table's time to live deletes it.
func TestExpires(t *testing.T) {
	t.Parallel()
	s := dynatest.Start(t)
	state := newState(t, s)
	task := statetest.Working("a", "line\n")
	statetest.Put(t, state, task)
	if err := statetest.Shared(newState(t, s)).Ask(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	statetest.Put(t, state, statetest.Ended(task, mcp.TaskCompleted, "done"))
	list, err := s.Client.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String(dynatest.Table)})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range list.Items {
		key := textOf(i, "pk") + " " + textOf(i, "sk")
		at, _ := numberOf(i, "expires")
		left := time.Until(time.Unix(at, 0)).Round(time.Minute)
		switch {
		case key == "runnel:local:schema schema" && at == 0:
		case strings.HasPrefix(key, "runnel:local:alive ") && left > time.Hour && left <= leaseExpiry:
		case left != time.Hour && left != time.Hour+time.Minute:
			t.Errorf("%s expires in %v", key, left)
		}
	}
	if len(list.Items) < 7 {
		t.Errorf("%d items", len(list.Items))
	}
}

// A table that deletes nothing is told.
func TestCheck(t *testing.T) {
	t.Parallel()
	s := dynatest.Start(t)
	state := newState(t, s)
	statetest.Put(t, state, statetest.Working("a"),
		statetest.Ended(statetest.Working("b"), mcp.TaskCompleted, "done"))
	if said, err := state.Space("local").Check(t.Context()); err != nil ||
		said != "tasks: 2, not ended: 1, runnels: 1" {
		t.Errorf("%s, %v", said, err)
	}
	s.DeleteTable(t)
	s.CreateTable(t, "another")
	if said, err := newState(t, s).Space("local").Check(t.Context()); err != nil ||
		!strings.Contains(said, "nothing of them is ever deleted") {
		t.Errorf("%s, %v", said, err)
	}
}

func TestParse(t *testing.T) {
	o, err := Parse("dynamodb://My_table.1?prefix=p&region=eu-central-1&endpoint=http://127.0.0.1:8000")
	if err != nil || o.Table != "My_table.1" || o.Prefix != "p" || o.Region != "eu-central-1" ||
		o.Endpoint != "http://127.0.0.1:8000" {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := Parse("dynamodb://runnel"); err != nil || o.Table != "runnel" {
		t.Errorf("%+v, %v", o, err)
	}
	for _, bad := range []string{
		"dynamodb://", "dynamodb://ab", "dynamodb://key:s3cret@runnel", "dynamodb://key:s3cret@runnel:port",
		"dynamodb://runnel/path", "dynamodb://runnel:8000", "dynamodb://a,b",
		"dynamodb://runnel?aws_secret_access_key=s3cret", "dynamodb://runnel?profile=x",
		"dynamodb://runnel?endpoint=http://key:s3cret@host", "dynamodb://runnel?endpoint=host:1",
		"dynamodb://runnel?region=a.b", "dynamodb://runnel?prefix=a:b", "other://runnel",
	} {
		if _, err := Parse(bad); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
