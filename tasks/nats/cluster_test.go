package nats

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tasks/statetest"
)

// freePorts are ports that nobody listens on.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports
}

// startCluster runs three servers that are one cluster.
func startCluster(t *testing.T, change ...func(*server.Options)) []*server.Server {
	t.Helper()
	ports := freePorts(t, 3)
	var routes []*url.URL
	for _, port := range ports {
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", port)})
	}
	servers := make([]*server.Server, len(ports))
	for i, port := range ports {
		o := &server.Options{
			ServerName: fmt.Sprint("node", i), Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true,
			StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
			Cluster: server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: port}, Routes: routes,
		}
		for _, c := range change {
			c(o)
		}
		s, err := server.NewServer(o)
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		servers[i] = s
	}
	statetest.Eventually(t, func() bool {
		for _, s := range servers {
			if !s.ReadyForConnections(time.Second) || !s.JetStreamIsCurrent() {
				return false
			}
		}
		return true
	})
	nc, err := nats.Connect(servers[0].ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	// The leader may not know yet what room the others have: "no suitable peers for placement".
	statetest.Eventually(t, func() bool {
		_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ready", Replicas: len(servers)})
		return err == nil && js.DeleteStream(t.Context(), "ready") == nil
	})
	return servers
}

// The server that leads the stream dies while tasks write: nothing of their output is lost or stored twice,
// and each ends once.
func TestLeaderDies(t *testing.T) {
	t.Parallel()
	servers := startCluster(t)
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.ClientURL())
	}
	replicas := func(o *Options) { o.Replicas = 3 }
	here, there := newState(t, strings.Join(urls, ","), replicas),
		newState(t, strings.Join(urls, ","), replicas)
	a, b := statetest.NewRunner(t, run.Options{State: here, Owner: "local"}),
		statetest.NewRunner(t, run.Options{State: there, Owner: "local"})
	watching, err := there.space(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	// On a machine with much to do the lease of the other may run out while servers elect: that is not what
	// is tested.
	watching.Stop()
	const lines = 400
	killed := make(chan struct{})
	var runs []*run.Run
	for range 5 {
		runs = append(runs, statetest.StartDelivered(t, a, func(ctx context.Context, task *run.Run) run.Done {
			for i := range lines {
				if i == lines/2 {
					<-killed
				}
				if err := task.Log().Append(ctx,
					partials.Chunk{Data: fmt.Appendf(nil, "line %d\n", i)}); err != nil {
					return run.Done{Err: err}
				}
				select {
				case <-time.After(time.Millisecond):
				case <-ctx.Done():
				}
			}
			return run.Done{Result: mcp.Result("done")}
		}))
	}
	view, release, err := b.Follow(t.Context(), runs[0].ID())
	if err != nil || view == nil {
		t.Fatal(err)
	}
	defer release()
	statetest.Eventually(t, func() bool { return view.Log().Size() > 0 })
	leader := ""
	sp, err := here.space(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	statetest.Eventually(t, func() bool {
		info, err := sp.stream.Info(t.Context())
		if err == nil && info.Cluster != nil {
			leader = info.Cluster.Leader
		}
		return leader != ""
	})
	died := time.Now()
	for _, s := range servers {
		if s.Name() == leader {
			s.Shutdown()
		}
	}
	close(killed)
	var want strings.Builder
	for i := range lines {
		fmt.Fprintf(&want, "line %d\n", i)
	}
	<-view.Ended()
	t.Logf("the first task ended %v after the leader's death", time.Since(died))
	if got := statetest.ReadAll(t, view.Log()); got != want.String() {
		t.Errorf("followed: %d bytes, want %d", len(got), want.Len())
	}
	for _, run := range runs {
		<-run.Ended()
		got := statetest.Get(t, there, run.ID())
		if got.Status != mcp.TaskCompleted || statetest.ReadAll(t, got.Log) != want.String() {
			t.Errorf("%s %q, %d bytes, want %d", got.Status, got.StatusMessage, got.Log.Size(), want.Len())
		}
	}
}

// What a URL asks for is compared with what is there at each opening: more replicas are added, and never
// fewer; where that is impossible, the error says the command.
func TestReplicasAreRaised(t *testing.T) {
	t.Parallel()
	url := startCluster(t)[0].ClientURL()
	asks := func(replicas int) *State { return newState(t, url, func(o *Options) { o.Replicas = replicas }) }
	first := asks(0)
	statetest.Put(t, first, statetest.Working("before"))
	for i, s := range []*State{asks(3), asks(0)} {
		statetest.Eventually(t, func() bool {
			return statetest.TryPut(s,
				statetest.Working(fmt.Sprint("a", i))) == nil
		})
		sp := spaceOf(t, s)
		for _, name := range []string{sp.name, sp.leaseName} {
			stream, err := s.c.js.Stream(t.Context(), name)
			if err != nil || stream.CachedInfo().Config.Replicas != 3 {
				t.Errorf("%s: %+v, %v", name, stream, err)
			}
		}
	}
	statetest.Eventually(t, func() bool { return len(statetest.IDs(t, first, 10)) == 3 })
	alone := startServer(t, t.TempDir(), 0).ClientURL()
	statetest.Put(t, newState(t, alone), statetest.Working("a"))
	for range 2 {
		_, err := newState(t, alone, func(o *Options) { o.Replicas = 3 }).Open("local").Get(t.Context(), "a")
		if err == nil || !strings.Contains(err.Error(), "nats stream edit runnel_local --replicas 3") {
			t.Errorf("one server, three replicas: %v", err)
		}
	}
}

// A limit that is asked for later counts.
func TestMaxBytesIsChanged(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	for _, size := range []int64{0, 4 << 20, 0, 2 << 20} {
		s := newState(t, url, func(o *Options) { o.MaxBytes = size })
		sp := spaceOf(t, s)
		stream, err := s.c.js.Stream(t.Context(), sp.name)
		if err != nil || size > 0 && (stream.CachedInfo().Config.MaxBytes != size || sp.maxBytes != size) {
			t.Errorf("asked for %d: %d, %v", size, stream.CachedInfo().Config.MaxBytes, err)
		}
	}
}

// What an owner's tasks may take is limited where neither the URL nor the account limits it: an owner that
// fills its own share leaves room for others, as long as the servers have room for a share.
func TestDefaultShare(t *testing.T) {
	t.Parallel()
	shares := func(url string, replicas int) (list [3]int64) {
		t.Helper()
		s := newState(t, url, func(o *Options) { o.Replicas = replicas })
		for i := range list {
			sp, err := s.space(t.Context(), fmt.Sprint("owner", i))
			if err != nil {
				t.Fatal(err)
			}
			list[i] = max(sp.maxBytes, 0)
		}
		return list
	}
	for size, want := range map[int64][3]int64{
		100 << 30:  {defaultShare, defaultShare, defaultShare},
		1200 << 20: {640 << 20, 320 << 20, 0},
		100 << 20:  {},
	} {
		limit := func(o *server.Options) { o.JetStreamMaxStore = size }
		if got := shares(startServer(t, t.TempDir(), 0, limit).ClientURL(), 1); got != want {
			t.Errorf("of %d: %d", size, got)
		}
		if size == 1200<<20 { // what the nodes know of each other's room is a little old
			got := shares(startCluster(t, limit)[0].ClientURL(), 3)
			if got[0] != want[0] && got[0] != 0 || got[1] > want[0] || got[2] > want[0] {
				t.Errorf("in a cluster: %d", got)
			}
		}
	}
}

// Owners that are opened at the same time are all opened, though the server reserves for each of them what
// only one can have: it would refuse everything then.
func TestOwnersAtTheSameTime(t *testing.T) {
	t.Parallel()
	limit := func(o *server.Options) { o.JetStreamMaxStore = 12 << 30 }
	for range 8 {
		srv := startServer(t, t.TempDir(), 0, limit)
		var opening sync.WaitGroup
		for i := range 8 { // two processes for each owner
			s := newState(t, srv.ClientURL())
			opening.Go(func() {
				sp, err := s.space(t.Context(), fmt.Sprint("owner", i/2))
				if err != nil {
					t.Error(err)
					return
				}
				statetest.Eventually(t, func() bool { // another owner may be giving room back
					_, err := sp.openQueue(t.Context())
					return err == nil
				})
			})
		}
		opening.Wait()
		srv.Shutdown()
		srv.WaitForShutdown()
	}
}

// Runnels that die after they have made the first stream of an owner do not lock the others out, nor do they
// keep what was reserved for it. Others wait until they count as dead: a living one may be giving it back.
func TestMakersDie(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits until the makers count as dead: make race runs it")
	}
	t.Parallel()
	dir := t.TempDir()
	limit := func(most int64) func(o *server.Options) {
		return func(o *server.Options) { o.JetStreamMaxStore = most }
	}
	srv := startServer(t, dir, 0, limit(25<<30))
	for _, owner := range []string{"one", "two"} { // 10 GiB each
		maker := newState(t, srv.ClientURL())
		sp, err := maker.space(t.Context(), owner)
		if err == nil {
			err = sp.c.js.DeleteStream(t.Context(), sp.leaseName)
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = maker.Close()
	}
	there := newState(t, srv.ClientURL())
	sp, err := there.space(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	if waited := sp.leases.CachedInfo().Created.Sub(sp.stream.CachedInfo().Created); waited < makerTimeout {
		t.Errorf("another process made its stream for leases after %v", waited)
	}
	err = sp.c.js.DeleteStream(t.Context(), sp.leaseName)
	_ = there.Close()
	srv.Shutdown()
	srv.WaitForShutdown()
	srv = startServer(t, dir, 0, limit(12<<30))
	for _, owner := range []string{"one", "two", "three"} {
		if _, failed := newState(t, srv.ClientURL()).space(t.Context(), owner); err != nil || failed != nil {
			t.Fatal(owner, err, failed)
		}
	}
}

// The limits are exact in a cluster, too.
func TestLimitsInCluster(t *testing.T) {
	t.Parallel()
	url := startCluster(t)[0].ClientURL()
	statetest.RunLimits(t, func(t *testing.T, limits tasks.Limits) (here, there tasks.State) {
		limit := func(o *Options) { o.Prefix, o.Replicas, o.Limits = prefixOf(t), 3, limits }
		return newState(t, url, limit), newState(t, url, limit)
	})
}

// Servers without a majority answer questions, but store nothing: a runnel knows that its lease has lapsed.
func TestNoMajority(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for leases: make race runs it")
	}
	t.Parallel()
	servers := startCluster(t)
	s := newState(t, servers[0].ClientURL(), func(o *Options) { o.Replicas = 3 })
	statetest.Eventually(t, func() bool {
		_, _, err := s.Open("a").List(t.Context(), tasks.OldestFirst, "", 1)
		return err == nil
	})
	if err := s.Open("a").(tasks.Shared).Lapsed(); err != nil {
		t.Fatal(err)
	}
	for _, gone := range servers[1:] {
		gone.Shutdown()
		gone.WaitForShutdown()
	}
	statetest.Eventually(t, func() bool { return s.Open("a").(tasks.Shared).Lapsed() != nil })
}

// How many servers have an owner's tasks is known when one of them is away.
func TestReplicasAreCounted(t *testing.T) {
	t.Parallel()
	servers := startCluster(t)
	state := newState(t, servers[0].ClientURL(), func(o *Options) { o.Replicas = 3 })
	statetest.Put(t, state, statetest.Working("a"))
	has := func(current int, said string) {
		t.Helper()
		statetest.Eventually(t, func() bool {
			stored, err := statetest.Queue(state).Stored(t.Context())
			text, failed := state.Space("local").Check(t.Context())
			return err == nil && failed == nil && stored.Replicas == 3 && stored.Current == current &&
				strings.Contains(text, said)
		})
	}
	has(3, "replicas: 3")
	servers[2].Shutdown()
	servers[2].WaitForShutdown()
	has(2, "replicas: 2 of 3 (a server is away, or catches up)")
}
